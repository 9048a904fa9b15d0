"""What the server's side reports of a run, round by round."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from amity.contract import Download, Model, Pick, State, nbytes
from amity.federation.messages import Measured, Verdict
from amity.federation.spending import Spent


class Settled(NamedTuple):
    """The last round in which a silo was asked, and what became of its upload."""

    round: int
    verdict: Verdict
    prints: tuple[str, ...] = ()  # of its accepted uploads, to recognise them should they come again (`robust.py`)


SettledEntry = tuple[int, Verdict] | tuple[int, Verdict, list[str]]
"""A `Settled` in a JSON file."""


def settled_entries(settled: Mapping[int, Settled]) -> dict[str, SettledEntry]:
    """Return what became of silos' last uploads as a JSON file holds it, by their numbers."""
    return {
        str(client): (one.round, one.verdict, list(one.prints)) if one.prints else (one.round, one.verdict)
        for client, one in settled.items()
    }


def settled_of(entries: Mapping[str, SettledEntry]) -> dict[int, Settled]:
    """Return what `settled_entries` has written."""
    return {
        int(client): Settled(round, verdict, tuple(prints[0]) if prints else ())
        for client, (round, verdict, *prints) in entries.items()
    }


class Progress(NamedTuple):
    """The server after a round: all that it needs to continue. No silo's state is part of it."""

    round: int
    server: State
    settled: Mapping[int, Settled] = {}  # silo -> what it has to be told, should it ask
    left: frozenset[int] = frozenset()  # silos that have left for good
    kept: frozenset[int] = frozenset()  # silos that have a model to be delivered, of this round or an earlier one


class Round(NamedTuple):
    """What is known of a round when it is over.

    The engines report it, for whoever calls them directly; `amity.run` records it as a line of `Result.lines`.

    >>> [name for name in amity.Round._fields if name.startswith("bytes")]
    ['bytes_up', 'bytes_down', 'bytes_eval', 'bytes_spared']
    """

    round: int
    scores: list[Measured] | None  # one per silo, absent ones too; None in a round without evaluation
    took_part: list[int]  # silos whose upload was accepted
    dropped: dict[int, str]  # silo -> why ("dropped before training", "upload refused: params not finite", ...)
    epochs: dict[int, int]  # silo -> local epochs, for those that trained
    bytes_up: int  # of accepted uploads
    bytes_down: int
    bytes_eval: int
    seconds: dict[str, float]  # phase -> wall time
    weights: Tensor | None  # [m, m] collaboration weights, NaN rows for silos that were not asked
    progress: Progress
    warnings: list[str]
    holds: list[str] | None = None  # which model each silo chose to hold, where the method lets it choose
    executed: Literal["loop", "stacked"] = "loop"  # one silo after the other, or all as rows of one matrix
    bytes_spared: int = 0  # of bytes_down and bytes_eval: not sent, since silos had them from the letter before
    ending: bool = False  # whether it is the one after the last, in which every silo goes on alone
    clouds: Mapping[int, Model] | None = None  # silo -> the cloud model that it was sent, where these are kept
    spent: Mapping[int, Spent] | None = None  # silo -> the noisy gradients that it took, under differential privacy


def weights_of(down: Download, asked: Tensor, clients: int) -> Tensor | None:
    """The collaboration weights that the server mixed with in a round.  # [m, m]"""
    if down.weights is None:
        return None
    out = torch.full((clients, clients), torch.nan, dtype=torch.float64)
    return out.index_copy(0, asked, down.weights.double())


def sent_bytes(down: Download, receivers: int) -> int:
    """Bytes on the wire of a download to so many silos."""
    each = 0
    for value in down.each.values():
        if isinstance(value, Pick):
            each += value.chosen.numel() * value.rows[0].numel() * value.rows.element_size()
        else:
            each += value.numel() * value.element_size()
    return receivers * nbytes(down.shared) + each


def verdict_of(client: int, refused: Mapping[int, str], gone: Mapping[int, str]) -> Verdict:
    """What became of a silo's upload in a round, by whose were refused and who is gone."""
    return "refused" if client in refused else "lost" if client in gone else "accepted"


class Watch:
    """Wall time per phase."""

    def __init__(self, laps: dict[str, float] | None = None) -> None:
        self.laps: dict[str, float] = {} if laps is None else laps
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase], self._last = now - self._last, now
