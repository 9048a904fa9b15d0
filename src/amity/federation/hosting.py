"""The door to silos that are hosted in this process: what a simulation's recorder reads of them.

A network engine has no such door, since its silos are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from amity.contract import Choosing, Method, Model, Relational, State
from amity.errors import InputError
from amity.federation.silo import Kept, SiloSide


class Hosting:
    """Silos that are hosted here."""

    at_hand = True

    def __init__(
        self, method: Method, silos: Mapping[int, SiloSide], delivered: Callable[[], list[Model]] | None = None
    ) -> None:
        self._method = method
        self._silos = [silos[client] for client in sorted(silos)]
        self._delivered = delivered

    def states(self) -> list[State]:
        return [silo.state for silo in self._silos]

    def kept_states(self) -> list[State]:
        return [kept.state for kept in self._kept()]

    def restore(self, states: Sequence[State], round: int) -> None:
        for silo, state in zip(self._silos, states, strict=True):
            silo.begin(state, round)

    def restore_kept(self, states: Sequence[State]) -> None:
        for silo, kept, state in zip(self._silos, self._kept(), states, strict=True):
            silo.kept = kept._replace(state=state)

    def predictions(self) -> list[Tensor]:
        scores = [silo.score for silo in self._silos]
        return [score.each.detach().cpu() for score in scores if score is not None]

    def relations(self) -> Tensor | None:
        method = self._method
        if not isinstance(method, Relational):
            return None
        rows = [method.relations(silo.state) for silo in self._silos]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=torch.nan)  # some left long ago

    def holds(self) -> list[str] | None:
        method = self._method
        if not isinstance(method, Choosing):
            return None
        words = [method.holds(silo.state) for silo in self._silos]
        return words if any(words) else None

    def delivered(self) -> list[Model]:
        return [silo.delivered() for silo in self._silos] if self._delivered is None else self._delivered()

    def _kept(self) -> list[Kept]:
        kept = [silo.kept for silo in self._silos if silo.kept is not None]
        if len(kept) < len(self._silos):
            raise InputError("silos were not told to keep a model yet: finish the run")
        return kept
