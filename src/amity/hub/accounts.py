"""The server's account of all that crosses: every letter and every answer is a line of HUB/audit.jsonl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from amity.federation.audit import Audit
from amity.federation.encoding import Title, title
from amity.federation.held import reference
from amity.federation.transport import Away, Letter
from amity.hub.watching import Network

AUDIT = "audit.jsonl"


class Audited:
    """A network, and an account of what it carries."""

    def __init__(self, network: Network, hub: Path) -> None:
        self._network = network
        self._audit = Audit(hub / AUDIT, "server")

    def send(self, letters: Mapping[str, Letter], seconds: Mapping[str, float]) -> Iterator[tuple[str, bytes | Away]]:
        titles = {name: self._crossed("sent", name, letters[name]) for name in letters}
        for name, answer in self._network.send(letters, seconds):
            if isinstance(answer, Away):
                self._audit.add("away", run=titles[name].run, round=titles[name].round, silo=name, words=answer.words)
            else:
                self._crossed("received", name, Letter(answer))
            yield name, answer

    @property
    def stopped(self) -> bool:
        return self._network.stopped

    def sign(self, name: str) -> tuple[float, Mapping[str, Any]] | None:
        """The time of a silo's last sign of life, and what it said."""
        return self._network.sign(name)

    def came_out(self, run: str, phase: str, words: str) -> None:
        """Add how a run came out."""
        self._audit.add(phase, run=run, words=words)

    def set_aside(self, run: str, round: int, silo: str, words: str) -> None:
        """Add that a silo cannot go on with the others."""
        self._audit.add("set aside", run=run, round=round, silo=silo, words=words)

    def _crossed(self, what: str, silo: str, letter: Letter) -> Title:
        found = title(letter.head)
        self._audit.add(
            f"{what} {found.kind}",
            run=found.run,
            round=found.round,
            silo=silo,
            bytes=len(letter),
            sha256=letter.sha256,
            words=reference(found.letter),
        )
        return found
