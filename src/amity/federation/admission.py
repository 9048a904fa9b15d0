"""Admission: what an upload must be before the server does anything with it.

An upload comes from a silo, which may be broken or hostile. One that has not exactly the keys, shapes, types and ranges
that the method declares, or whose numbers are not finite, is refused: it counts as never sent, its silo goes on from
its old state, and nobody else notices. What is expected is known before any upload arrives.

Nothing here knows an engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from amity.contract import (
    Data,
    Download,
    Federation,
    Kind,
    Kinds,
    Method,
    Solver,
    Split,
    State,
    Turn,
    declared,
    kinds_like,
)
from amity.federation.carrier import Outbox
from amity.federation.messages import Answer, Failed, Upload
from amity.federation.storage import Shelf
from amity.learn.task import Task
from amity.learn.vectors import length

_NOT_FINITE = "not finite"
_NEGATIVE = "has a variance below zero"


class Admission:
    """What is let in. Without kinds, all that can be an upload of some method."""

    def __init__(self, kinds: Kinds | None, variances: Tensor | None = None) -> None:
        """`variances`: which of a model's buffers are variances, which are never below zero."""
        self._kinds = kinds
        self._variances = variances

    def refused(self, upload: object) -> str | None:
        """Why an upload cannot be used; None where it can."""
        wrong = _misshapen(upload, self._kinds)
        if wrong is not None or not isinstance(upload, Mapping):
            return wrong
        for key, value in upload.items():
            if value.is_floating_point() and not _finite(value):
                return _refusal(key, _NOT_FINITE)
            kind = self._ranged(key)
            if kind is not None and value.numel() and not bool(_within(value, kind).all()):
                return _refusal(key, _outside(kind))
            if (fine := self._possible(key, value)) is not None and not bool(fine):
                return _refusal(key, _NEGATIVE)
        return None

    def refused_rows(self, uploads: State, count: int) -> dict[int, str]:
        """The same for uploads that are rows of matrices: which of them cannot be used, and why."""
        kinds = self._kinds and {k: kind._replace(shape=(count, *kind.shape)) for k, kind in self._kinds.items()}
        wrong = _misshapen(uploads, kinds)
        if wrong is not None:
            return dict.fromkeys(range(count), wrong)
        refused: dict[int, str] = {}
        for key, value in uploads.items():
            if value.is_floating_point() and not _finite(value):
                _blame(refused, torch.isfinite(value), _refusal(key, _NOT_FINITE))
            kind = self._ranged(key)
            if kind is not None and value.numel():
                _blame(refused, _within(value, kind), _refusal(key, _outside(kind)))
            if (fine := self._possible(key, value)) is not None:
                _blame(refused, fine, _refusal(key, _NEGATIVE))
        return refused

    def _possible(self, key: str, value: Tensor) -> Tensor | None:
        """Whether no variance among buffers is below zero, by row; None where there is none.  # [..., b] -> [...]"""
        which = self._variances
        if which is None or key != "buffers" or value.dim() == 0 or value.shape[-1] != len(which):
            return None
        return (value[..., which.to(value.device)] >= 0).all(-1)

    def _ranged(self, key: str) -> Kind | None:
        kind = None if self._kinds is None else self._kinds[key]
        return None if kind is None or (kind.least is None and kind.most is None) else kind


def admit(
    admission: Admission,
    clients: Sequence[int],
    answer: Answer,
    messages: Outbox,
    lost: frozenset[int],
    shelf: Shelf,
) -> dict[int, str]:
    """Let uploads in, and say why not where they are refused. This is the one place, for every engine.

    An upload is of the run and the round that was asked for, and those of silos in `lost` are looked at but not kept.
    """
    if isinstance(answer, Failed):  # an upload that cannot even be sent
        return dict.fromkeys(clients, answer.words)
    if not isinstance(answer, Upload) or answer.run != messages.run or answer.round != messages.round:
        return dict.fromkeys(clients, "upload refused: it answers another question")
    if len(clients) == 1:
        wrong = admission.refused(answer.values)
        found = {} if wrong is None else {0: wrong}
        rows = {} if found else {key: value[None] for key, value in answer.values.items()}
    else:
        found, rows = admission.refused_rows(answer.values, len(clients)), answer.values
    there = [at for at, client in enumerate(clients) if at not in found and client not in lost]
    if len(there) == len(clients):
        shelf.put([messages.places[client] for client in clients], clients, rows)
    elif there:
        some = {key: value[there] for key, value in rows.items()}
        shelf.put([messages.places[clients[at]] for at in there], [clients[at] for at in there], some)
    return {clients[at]: why for at, why in found.items()}


def expected(
    method: Method, task: Task, fed: Federation, solver: Solver, down: Download, who: Tensor, round: int
) -> Kinds:
    """What uploads in answer to this download must be.

    A method that does not declare it is rehearsed: its `local` for the smallest client asked, from its first state, on
    as many blank examples, for no epoch (or one, where it cannot do without). Shapes and types come out the same.
    """
    kinds = declared(method, task, fed, down)
    if kinds is not None:
        return kinds
    place = min(range(len(who)), key=lambda at: int(fed.sizes[who[at]]) or math.inf)
    client = int(who[place])
    blank = _blank(task, int(fed.sizes[client]))

    def rehearsal(epochs: int) -> Kinds:
        turn = Turn(round, epochs, solver, Data(blank, blank), lambda role, epoch: epoch)
        return kinds_like(method.local(task, method.init_client(task, fed, client), down.to(place), turn)[1])

    try:
        return rehearsal(0)
    except Exception:
        try:
            return rehearsal(1)
        except Exception as error:
            name = type(method).__name__
            error.add_note(
                f"in a rehearsal of {name}.local on blank examples, for it declares no `upload_kinds` (contract.py)"
            )
            raise


def variances_of(task: Task) -> Tensor | None:
    """Return which buffers of a model are variances; None where there is none.  # [b]

    The root of a variance below zero is no number: in a mean it would leave everybody with a model that says nothing.
    """
    slots = [slot for slot in task.layout.buffers if slot.name.rpartition(".")[2] == "running_var"]
    if not slots:
        return None
    which = torch.zeros(length(task.layout.buffers), dtype=torch.bool)
    for slot in slots:
        which[slot.start : slot.start + slot.shape.numel()] = True
    return which


def advice(reason: str) -> str:
    """A reason as it is said aloud: numbers that are not finite mean that training diverges, nothing else does."""
    return f"{reason}; training diverges, try a smaller rate" if reason.endswith(_NOT_FINITE) else reason


def _blank(task: Task, size: int) -> Split:
    y = torch.zeros(size, dtype=torch.int64 if task.classes else task.dtype, device=task.device)
    return Split(torch.zeros(size, *task.shape, dtype=task.dtype, device=task.device), y)


def _misshapen(upload: object, kinds: Kinds | None) -> str | None:
    """What is wrong with an upload's keys, types or shapes."""
    if not isinstance(upload, Mapping):
        return "upload refused: not a dict of tensors"
    wanted = upload if kinds is None else kinds
    for key in wanted:
        if key not in upload:
            return _refusal(key, "is missing")
    for key, value in upload.items():
        if not isinstance(key, str) or key not in wanted:
            return _refusal(repr(key)[:40], "is not part of it")
        wrong = _unusable(value) or (None if kinds is None else _unlike(value, kinds[key]))
        if wrong is not None:
            return _refusal(key, wrong)
    return None


def _unusable(value: object) -> str | None:
    """What no upload may contain, of whatever method."""
    if not isinstance(value, Tensor):
        return "is no tensor"
    if value.layout is not torch.strided or value.is_meta or value.is_quantized:
        return "is no dense tensor"
    if value.is_complex():
        return "is complex"
    return "still carries gradients" if value.requires_grad else None


def _unlike(value: Tensor, kind: Kind) -> str | None:
    if value.dtype != kind.dtype:
        return f"is {_short(value.dtype)}, not {_short(kind.dtype)}"
    return None if value.shape == kind.shape else f"has the shape {list(value.shape)}, not {list(kind.shape)}"


def _finite(value: Tensor) -> bool:
    """A sum with a number that is not finite is not finite, and takes a tenth of the time to see; a large one may
    overflow, and is looked at again."""
    return bool(torch.isfinite(value.sum())) or bool(torch.isfinite(value).all())


def _within(value: Tensor, kind: Kind) -> Tensor:
    inside = torch.ones_like(value, dtype=torch.bool)
    if kind.least is not None:
        inside &= value >= kind.least
    if kind.most is not None:
        inside &= value <= kind.most
    return inside


def _blame(refused: dict[int, str], fine: Tensor, reason: str) -> None:
    """Refuse the rows in which not everything is fine, where nothing else was wrong with them."""
    for row in (~fine.reshape(len(fine), -1).all(1)).nonzero()[:, 0].tolist():
        refused.setdefault(row, reason)


def _refusal(key: str, what: str) -> str:
    return f"upload refused: {key} {what}"


def _outside(kind: Kind) -> str:
    low, high = ("any" if end is None else str(end) for end in (kind.least, kind.most))
    return f"is not between {low} and {high}"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
