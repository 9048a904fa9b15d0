"""A process that looks at whatever loads torch, FLARE or a silo's own code: `python -m amity.checks.child KIND FOLDER`.

It may be slow, hang or crash, and is ended when its time is over; what it had found by then counts. It writes a line
of JSON for each finding and each line of its log. What other code prints goes nowhere.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self

from amity.checks.findings import Account, Finding, plain

Work = Literal["silo", "hub", "session", "hello"]


class Child:
    """Such a process. Used as a context: leaving it ends the process."""

    def __init__(self, work: Work, folder: Path, run: Path | None = None) -> None:
        words = [str(path.absolute()) for path in (folder, run) if path is not None]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "amity.checks.child", work, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, name="amity-checks", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # not even that ends one that waits for a drive that is gone
            self._process.wait(1)

    def findings(self, until: float, check: str) -> list[Finding]:
        """Return what it finds until then (`time.monotonic`), and whether it came to its end."""
        account = Account()
        while True:
            try:
                line = self._lines.get(timeout=max(0.1, until - time.monotonic()))
            except queue.Empty:
                found = "not known: looking at it takes longer than the time that this check may take"
                account.warned(check, found, "nothing is wrong by that; give more seconds with --patience")
                break
            if line is None:
                code = self._process.wait()
                if code:
                    found = f"the process that looks at it ended early (exit code {code})"
                    account.failed(check, found, "see that there is enough memory, and look at code of your own")
                break
            _take(account, line)
        return account.findings

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put(None)


def _take(account: Account, line: str) -> None:
    try:
        content = json.loads(line)
        if "log" in content:
            logging.getLogger(str(content["log"])).log(int(content["level"]), "%s", content["text"])
        else:
            account.add([Finding(**content)])
    except (ValueError, TypeError, KeyError, RecursionError):
        pass  # no line of ours


class _Telling(Account):
    """Tells each finding as soon as it is there."""

    def __init__(self, out: IO[str]) -> None:
        super().__init__()
        self._out = out

    def _add(self, check: str, grade: str, found: str, remedy: str = "") -> None:
        super()._add(check, grade, found, remedy)  # type: ignore[arg-type]
        print(json.dumps(self.findings[-1]._asdict()), file=self._out, flush=True)


class _Log(logging.Handler):
    """Sends lines of the log, which may quote data, to where the user has asked for them; nowhere by default."""

    def __init__(self, out: IO[str]) -> None:
        super().__init__()
        self._out = out

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        print(json.dumps({"log": record.name, "level": record.levelno, "text": text}), file=self._out, flush=True)


def _silo(account: Account, folder: Path, run: Path | None) -> None:
    from amity.checks.contract import check_silos_run

    check_silos_run(account, folder, run)


def _hub(account: Account, folder: Path, run: Path | None) -> None:
    from amity.checks.runs import check_runs

    check_runs(account, folder, run)


def _session(account: Account, folder: Path, run: Path | None) -> None:
    from amity.checks.session import check_session

    check_session(account, folder)


def _hello(account: Account, folder: Path, run: Path | None) -> None:
    from amity.checks.hello import check_hello

    check_hello(account, folder)


_WORK: Mapping[str, Callable[[Account, Path, Path | None], None]] = {
    "silo": _silo,
    "hub": _hub,
    "session": _session,
    "hello": _hello,
}


def main(work: str, folder: Path, run: Path | None) -> None:
    """Look at what is asked for."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    logger = logging.getLogger("amity")
    logger.addHandler(_Log(out))
    logger.setLevel(logging.INFO)
    account, code = _Telling(out), 1
    try:
        with account.about("data" if work == "silo" else plain(work)):
            _WORK[work](account, folder, run)
        code = 0
    finally:  # also where code of the silo's own asks Python to end
        out.close()
        os._exit(code)  # at once: FLARE leaves threads behind


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
