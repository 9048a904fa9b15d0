"""Sites in tests: a small consortium that signs contracts, folders of silos, and their workers as child processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from loaded import Loaded
from signed_contracts import certified

import amity
from amity.contract import Silo
from amity.engines.memory import Memory
from amity.errors import LostWorker
from amity.federation.approvals import approve
from amity.federation.encoding import decode, encode
from amity.federation.leaving import leaving
from amity.federation.messages import Answer, Describe, Described, Message, Propose, Standing
from amity.federation.plan import Member, Plan, layout_of
from amity.federation.proposal import proposal
from amity.federation.run_contract import DataForm, Limits, RunContract
from amity.federation.signed import Contract, sign, to_json
from amity.resolve import Builds, resolve
from amity.site.config import load_site

_SPAN = {"begins": datetime.now(UTC) - timedelta(days=1), "ends": datetime.now(UTC) + timedelta(days=1)}
ROOT = certified("trial-consortium", **_SPAN)  # type: ignore[arg-type]
ADMIN = certified("admin", ROOT, role="project_admin", **_SPAN)  # type: ignore[arg-type]
SIGNED_AT = datetime.now(UTC)


def contract_of(
    run: amity.Run, form: DataForm, names: Sequence[str], *, model: Builds | None = None, **changes: Any
) -> RunContract:
    """A contract about this run between these silos."""
    roster = [Member(name, 100, form.shape, form.classes) for name in names]
    plan = resolve(run, roster, model=model).plan
    base: dict[str, Any] = {
        "name": "trial",
        "consortium": "trial-consortium",
        "run": run.table(),
        "data": form,
        "layout": layout_of(plan),
        "invited": tuple(names),
        "quorum": 1,
        "policy": "wait",
        "least_rounds": 0,
        "limits": Limits(),
        "leaves": leaving(plan, run, "float32"),
        "wire": "float32",
        "privacy": {},
        "amity": "0.1.0",
    }
    return RunContract(**{**base, **changes})


def signed(contract: Contract) -> str:
    return to_json(sign(contract, ADMIN.key_pem, ADMIN.pem, SIGNED_AT))


def make_site(folder: Path, lines: str, *, root: bytes = ROOT.pem) -> Path:
    """A silo's folder with this silo.toml; its state lies beside the kit."""
    (folder / "kit" / "startup").mkdir(parents=True)
    (folder / "kit" / "startup" / "rootCA.pem").write_bytes(root)
    (folder / "silo.toml").write_text(f'name = "{folder.name}"\nstate = "state"\n{lines}\n')
    return folder


def npz_site(root: Path, silo: Silo, lines: str = "") -> Path:
    """The folder of a silo whose data are these, in an npz file."""
    folder = make_site(root / silo.name, f'data = "data.npz"\n{lines}')
    parts = {"train": silo.train, "test": silo.test}
    arrays = {f"{axis}_{part}": getattr(split, axis).numpy() for part, split in parts.items() for axis in ("x", "y")}
    np.savez(folder / "data.npz", **arrays)
    return folder


def approved(folder: Path, contract: Contract) -> Path:
    """The same folder, where somebody has approved this contract."""
    site = load_site(folder)
    approve(site.state, contract, site.name, "somebody", datetime.now(UTC))
    return folder


PROGRAM = ("-m", "amity.site.worker")
"""How a silo starts its worker."""


class Workers:
    """Workers as child processes, in the order of their folders. Used as a context: leaving it ends them."""

    def __init__(
        self, folders: Sequence[Path], *, env: Mapping[str, str] | None = None, words: Sequence[str] = ()
    ) -> None:
        """`words`: those of a new process of Python, which loads all anew; without any, it is a copy (`loaded.py`)."""
        self.folders = list(folders)
        self._words = list(words)
        self.children: dict[int, subprocess.Popen[bytes] | Loaded] = {}
        self._env = dict(env or {})

    def __enter__(self) -> Self:
        for client in range(len(self.folders)):
            self.start(client)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in list(self.children):
            self.kill(client)

    def start(self, client: int) -> None:
        env = {**os.environ, **self._env, "AMITY_SITE": str(self.folders[client])}
        if not self._words:
            self.children[client] = Loaded("amity.site.worker", env=env)
            return
        command, pipe = [sys.executable, *self._words], subprocess.PIPE
        self.children[client] = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env)

    def kill(self, client: int) -> None:
        child = self.children.pop(client)
        child.kill()
        child.communicate()

    def end(self, client: int) -> None:
        """Send no more messages, and wait until the worker has done the rest."""
        child = self.children.pop(client)
        _, said = child.communicate(timeout=120)
        assert child.returncode == 0, said.decode()

    def send(self, client: int, content: bytes) -> bytes:
        child = self.children[client]
        assert child.stdin is not None and child.stdout is not None
        watch = threading.Timer(120, child.kill)
        watch.start()
        try:
            child.stdin.write(len(content).to_bytes(8, "big") + content)
            child.stdin.flush()
            head = child.stdout.read(8)
            if len(head) == 8:
                return child.stdout.read(int.from_bytes(head, "big"))
        except BrokenPipeError:
            pass
        finally:
            watch.cancel()
        raise LostWorker(f"the worker of silo {client} has ended (exit code {child.wait()})")

    def ask(self, client: int, message: Message) -> Answer:
        answer = decode(self.send(client, encode(message)))
        assert isinstance(answer, Answer)
        return answer

    def roster(self, contract: RunContract) -> list[Member]:
        """What each silo says of itself."""
        document = signed(contract)
        answers = [
            self.ask(client, Describe(contract.name, 0, client, document)) for client in range(len(self.folders))
        ]
        members = []
        for answer in answers:
            assert isinstance(answer, Described), answer
            line = json.loads(answer.member)
            members.append(Member(**{**line, "shape": tuple(line["shape"])}))
        return members

    def agree(self, contract: RunContract, model: Builds | None = None) -> tuple[Plan, Memory]:
        """The plan, which each side has come to by itself, and a carrier that has no silo of its own."""
        roster = self.roster(contract)
        plan = resolve(contract.options, roster, model=model).plan._replace(run=contract.name)
        document = proposal(signed(contract), roster)
        for client in range(len(self.folders)):
            answer = self.ask(client, Propose(contract.name, 0, client, document))
            assert isinstance(answer, Standing) and answer.layout == layout_of(plan), answer
        return plan, Memory(plan, wires={client: partial(self.send, client) for client in range(len(self.folders))})
