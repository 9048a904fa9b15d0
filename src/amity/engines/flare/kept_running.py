"""A process that is kept running: started again when it ends, sooner the rarer that is, and ended with us."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from amity.errors import InputError
from amity.site.session import REMOVED

WAITS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds before it is started again, after so many ends in a row."""

LONG = 300.0
"""Seconds after which a process counts as having run well."""

REFUSED = 2
"""The exit code of a process that has said in one line why it does not start: starting it again would not help."""


class KeptRunning:
    """A process, and how often it had to be started."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path, say: Callable[[str], None]
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._log = log
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._began = self._again = 0.0
        self._said = 0  # bytes of the log that are of processes before this one
        self._ends = 0

    def look(self) -> None:
        """Start it, if it is not running and it is time. Raises InputError where it refuses to start."""
        if self._process is None:
            if time.monotonic() >= self._again:
                self._start()
            return
        code = self._process.poll()
        if code is None:
            return
        self._process = None
        if code == REFUSED:
            raise InputError(self._last_words())
        self._ends = 0 if time.monotonic() - self._began > LONG else self._ends
        wait = WAITS[min(self._ends, len(WAITS) - 1)]
        self._ends += 1
        self._again = time.monotonic() + wait
        why = reason(self._last_words()) if code > 0 else "it was killed" if code < 0 else "it was told to end"
        self._say(f"the network process has ended ({why}): it is started again in {wait:.0f} s")

    def end(self, seconds: float = 20.0) -> None:
        """End it and all that it has started."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)  # whatever is left of its group
        except ProcessLookupError:
            pass
        process.wait()

    @property
    def pid(self) -> int | None:
        """Its number, while it runs."""
        return None if self._process is None else self._process.pid

    def _start(self) -> None:
        self._began = time.monotonic()
        self._log.touch(mode=0o600)
        with self._log.open("ab") as log:
            self._said = log.tell()
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # FLARE writes its own log into the kit
                stderr=log,
                start_new_session=True,
            )

    def _last_words(self) -> str:
        lines = self._log.read_bytes()[self._said :].decode(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("amity: ") if lines else "the network process ends without a word"


def reason(line: str) -> str:
    """The last line of FLARE's process in words that say who can do something about it."""
    words = re.sub(r"^[\w.]*(Error|Exception): ", "", line).removeprefix("error:client_registration ").strip()
    if words.startswith("Client ") and words.endswith(" is disabled"):
        return REMOVED
    return words[:200]
