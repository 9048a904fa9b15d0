"""Child processes that begin as copies of one that has loaded Amity and torch, which takes a new one over a second.

Nothing else is shared: each has a number, memory, files and pipes of its own, and is killed as any other.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from multiprocessing import get_context
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

_COPIES = get_context("forkserver")
_COPIES.set_forkserver_preload(["amity.site.worker", "amity.silo_process"])


class _Handle:
    """An open file that the child is to have."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (DupFd(self.number),)


def _received(sent: Any) -> _Handle:
    return _Handle(sent.detach())


class Loaded:
    """A child that does what `python -m MODULE WORDS` does, with what tests use of `subprocess.Popen`."""

    def __init__(self, module: str, *words: str, env: Mapping[str, str] | None = None) -> None:
        (stdin, self._to), (self._from, stdout), (self._told, stderr) = (os.pipe() for _ in range(3))
        streams = [_Handle(number) for number in (stdin, stdout, stderr)]
        how = (streams, module, list(words), dict(os.environ if env is None else env), Path.cwd())
        self._process = _COPIES.Process(target=_run, args=how, daemon=True)
        self._process.start()
        for handle in streams:
            os.close(handle.number)
        self.stdin, self.stdout, self.stderr = open(self._to, "wb"), open(self._from, "rb"), open(self._told, "rb")

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """What it has ended with."""
        return self._process.exitcode

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return with what."""
        self._process.join(timeout)
        assert self._process.exitcode is not None, f"still running after {timeout} seconds"
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Tell it nothing more, wait until it has ended, and return what it has written."""
        try:
            self.stdin.close()
        except BrokenPipeError:
            pass
        self.wait(timeout)
        with self.stdout, self.stderr:
            return self.stdout.read(), self.stderr.read()


def _run(streams: list[_Handle], module: str, words: list[str], env: dict[str, str], here: Path) -> None:
    """Be the process of a module, in the child."""
    for number, handle in enumerate(streams):
        os.dup2(handle.number, number)
        os.close(handle.number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))  # so that one that is replaced stays open
    os.chdir(here)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [module, *words]
    importlib.import_module(module).main()
