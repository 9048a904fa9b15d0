"""Wires to silos in processes of their own, for the memory carrier: each is given a folder and messages alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from amity.config.run import Run
from amity.errors import InputError, LostWorker
from amity.federation.encoding import decode, encode
from amity.federation.messages import Answer, Describe, Described, Failed, Message, Propose, Standing
from amity.federation.plan import Member


class Processes:
    """Silos as child processes, in the order of their folders. Used as a context: leaving it ends them."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = list(folders)
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for client in range(len(self._folders)):
            self.start(client)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in list(self._children):
            self.end(client)

    def start(self, client: int) -> None:
        """Start the process of a silo, or start it again."""
        command = [sys.executable, "-m", "amity.silo_process", str(self._folders[client])]
        self._children[client] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def end(self, client: int) -> None:
        """End the process of a silo, at once."""
        child = self._children.pop(client)
        child.kill()
        child.communicate()

    def send(self, client: int, content: bytes) -> bytes:
        """Take the bytes of a message to a silo, and bring those of its answer."""
        child = self._children[client]
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(len(content).to_bytes(8, "big") + content)
            child.stdin.flush()
            head = child.stdout.read(8)
            if len(head) == 8:
                return child.stdout.read(int.from_bytes(head, "big"))
        except BrokenPipeError:
            pass
        raise LostWorker(f"the process of silo {client} has ended (exit code {child.wait()}): start it again")

    def ask(self, client: int, message: Message) -> Answer:
        """A silo's answer to one message."""
        answer = decode(self.send(client, encode(message)))
        if isinstance(answer, Failed):
            raise InputError(answer.words)
        assert isinstance(answer, Answer)
        return answer

    def roster(self, name: str, run: Run) -> list[Member]:
        """What each silo says of itself."""
        document = json.dumps({"run": run.table()})
        found = [self.ask(client, Describe(name, 0, client, document)) for client in range(len(self._folders))]
        lines = [json.loads(answer.member) for answer in found if isinstance(answer, Described)]
        return [Member(**{**line, "shape": tuple(line["shape"])}) for line in lines]

    def agree(self, name: str, run: Run, roster: Sequence[Member]) -> Mapping[int, Standing]:
        """Propose the run to every silo; where each of them stands comes back."""
        document = json.dumps({"run": run.table(), "roster": [member._asdict() for member in roster]})
        found = {client: self.ask(client, Propose(name, 0, client, document)) for client in range(len(self._folders))}
        return {client: answer for client, answer in found.items() if isinstance(answer, Standing)}
