"""Protection against bad silos (`--robust`), between the uploads of a round and the server's new state.

Admission looks at one upload by itself; here a round's uploads are looked at together. One is refused if

    it has moved too far     l_i > max(FACTOR, s^4) c,   l_i = |x_i - r_i|  of any vector x in it,
                             c = median of l_j,   log s = median of |log(l_j / c)|     over the round
    it came before           it equals, to the last bit, an upload of this silo that was accepted earlier

r_i is what the silo was sent under the same name, or its own vector that the server keeps, whichever is nearer: a silo
unlike all others may go on from itself. Where there is neither, it is the nearest of all vectors that it was sent. s is
by how much steps differ usually, 1.2 in most rounds and 2 or 3 where some silos are far larger than others. Steps of
length 0 are not counted, and with fewer than LEAST others nothing can be said. A refused upload counts as never sent.

For methods that average models (`abilities.Averages`), another mean can take the place of theirs: the method is shown
uploads that all equal it (`learn/robust_means.py`). One row is shown many times, so that it costs no memory.

Lengths are taken as uploads come in: afterwards an engine may have written them over what the silos were sent.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch
from torch import Tensor

from amity.config.robust import MEANS, Robust
from amity.contract import Download, Pick, State, averaged_keys
from amity.federation.messages import Verdict
from amity.federation.plan import Plan
from amity.federation.reports import Progress, Settled
from amity.federation.storage import Shelf
from amity.learn.robust_means import MEANS as RULES
from amity.learn.robust_means import krum_choice, mean_of
from amity.learn.vectors import distance

FACTOR = 8.0
"""A step may be so many times as long as the median one. docs/robust.md has what honest rounds show."""

LEAST = 4
"""Steps that a median needs to say anything: with three, one bad and one small silo would outvote the third."""

REMEMBERED = 100
"""Rounds whose uploads are recognised when they come again."""

_AS_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Guard:
    """A shelf that looks at all uploads of a round before the server makes its new state of them."""

    def __init__(self, shelf: Shelf, plan: Plan, down: Download, server: State, known: Mapping[int, Settled]) -> None:
        self._shelf = shelf
        self._robust = plan.robust
        self._averaged = averaged_keys(plan.method)
        self._sizes = plan.fed.sizes
        self._down = down
        self._server = server
        self._known = known
        self._lengths: dict[str, dict[int, float]] = {}  # key -> client -> the length of its step
        self._prints: dict[int, str] = {}  # client -> its upload, recognisable

    def put(self, places: Sequence[int], clients: Sequence[int], rows: State) -> None:
        """Measure uploads, and pass them on."""
        if self._robust != "off":
            for at, (place, client) in enumerate(zip(places, clients, strict=True)):
                self._look_at(place, client, {key: value[at] for key, value in rows.items()})
        self._shelf.put(places, clients, rows)

    def refused(self) -> dict[int, str]:
        """Whose upload is refused now that all of the round are there, and why."""
        found = {client: "upload refused: it came before, in an earlier round" for client in self._repeated()}
        for key, lengths in self._lengths.items():
            for client, times in too_long(lengths).items():
                words = f"{key} moved {times.found:.3g} times as far as the median silo's, {times.most:.3g} is the most"
                found.setdefault(client, f"upload refused: {words}")
        return found

    def rows(self, places: Sequence[int]) -> State:
        """The uploads as the method is to see them."""
        uploads = self._shelf.rows(places)
        return combined(uploads, self._averaged, self._robust) if self._robust in MEANS else uploads

    def look(self, places: Sequence[int]) -> State:
        """The uploads as they came, which stay on the shelf."""
        return self._shelf.look(places)

    def aggregating(self) -> AbstractContextManager[None]:
        return self._shelf.aggregating()

    def settle(self, server: State, places: Sequence[int], clients: Sequence[int]) -> None:
        self._shelf.settle(server, places, clients)

    def prints_after(self, client: int, verdict: Verdict) -> tuple[str, ...]:
        """What is kept of a silo's accepted uploads, this round's among them, to recognise them by."""
        before = self._known[client].prints if client in self._known else ()
        new = (self._prints[client],) if verdict == "accepted" and client in self._prints else ()
        return (*before, *new)[-REMEMBERED:]

    def _look_at(self, place: int, client: int, upload: State) -> None:
        vectors = {key: value for key, value in upload.items() if value.is_floating_point() and value.dim()}
        for key, value in vectors.items():
            length = self._length(place, client, key, value)
            if length:
                self._lengths.setdefault(key, {})[client] = length
        if int(self._sizes[client]) and any(value.numel() for value in vectors.values()):
            self._prints[client] = print_of(vectors)  # a silo without data has nothing new to say

    def _length(self, place: int, client: int, key: str, value: Tensor) -> float:
        """|x_i - r_i|; 0 where there is nothing to compare with."""
        references = self._references(place, client, key, value.shape)
        return min((distance(value, one) for one in references), default=0.0)

    def _references(self, place: int, client: int, key: str, shape: torch.Size) -> list[Tensor]:
        sent = {**self._down.shared, **{k: v[place] for k, v in self._down.each.items() if not isinstance(v, Pick)}}
        found = [sent[key]] if key in sent and sent[key].shape == shape else []
        kept = self._server.get(key)
        if kept is not None and kept.shape == (len(self._sizes), *shape):
            found.append(kept[client])
        if found:
            return found
        several = (v for v in sent.values() if v.is_floating_point() and v.dim() > 1 and v.shape[1:] == shape)
        return [one for value in several for one in value]

    def _repeated(self) -> list[int]:
        known = self._known
        return [client for client, one in self._prints.items() if client in known and one in known[client].prints]


def progress_after(
    before: Progress, number: int, server: State, verdicts: Mapping[int, Verdict], guard: Guard, left: Iterable[int]
) -> Progress:
    """The server after a round, with what each silo has to be told and what its uploads are recognised by."""
    told = {i: Settled(number, verdict, guard.prints_after(i, verdict)) for i, verdict in verdicts.items()}
    settled = {**before.settled, **told}
    return before._replace(round=number, server=server, settled=settled, left=frozenset(left))


class Times(NamedTuple):
    """How many times as long as the median one a step is, and may be."""

    found: float
    most: float


def too_long(lengths: Mapping[int, float]) -> dict[int, Times]:
    """Whose step is too long, of lengths above 0.

    >>> too_long({0: 1.0, 1: 1.0, 2: 0.9, 3: 8.0, 4: 50.0})
    {4: Times(found=50.0, most=8.0)}
    """
    if len(lengths) < LEAST:
        return {}
    middle, most = _middle(list(lengths.values()))
    return {i: Times(length / middle, most) for i, length in lengths.items() if length > most * middle}


def limit(lengths: Sequence[float]) -> float:
    """The longest step that is let in among steps of these lengths.

    >>> limit([1.0, 1.0, 1.0, 2.0])
    8.0
    """
    middle, most = _middle(lengths)
    return most * middle


def _middle(lengths: Sequence[float]) -> tuple[float, float]:
    """c, and max(FACTOR, s^4)."""
    found = torch.tensor(lengths, dtype=torch.float64)
    middle = float(found.quantile(0.5))
    spread = float((found / middle).log().abs().quantile(0.5))  # log s
    return middle, max(FACTOR, math.exp(4 * spread))


def combined(uploads: State, keys: Sequence[str], robust: Robust) -> State:
    """Uploads in which every row of the averaged keys is their robust mean: the method's own mean of them is that.

    Krum chooses silos by all their parameters, and takes the rest of those.
    """
    floats = {key: uploads[key] for key in keys if key in uploads and uploads[key].is_floating_point()}
    found: State = {}
    if robust == "krum" and "params" in floats:
        chosen = krum_choice(floats["params"])
        found = {key: mean_of(value, chosen) for key, value in floats.items()}
    else:
        found = {key: RULES[robust](value) for key, value in floats.items()}
    return {**uploads, **{key: value.expand_as(floats[key]) for key, value in found.items()}}


def print_of(upload: State) -> str:
    """A checksum of an upload's numbers, 96 bits long.

    No cryptographic one, which takes ten times as long: a silo that changes a bit on purpose is not recognised by any.
    """
    crc = total = 0
    for key in sorted(upload):
        numbers = upload[key].detach().cpu().contiguous().reshape(-1)
        crc = zlib.crc32(numbers.view(torch.uint8).numpy().data, crc)
        total += int(numbers.view(_AS_INTEGERS[numbers.element_size()]).numpy().sum(dtype="int64"))
    return f"{crc:08x}{total % (1 << 64):016x}"
