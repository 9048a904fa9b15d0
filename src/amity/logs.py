"""Logs for whoever looks for a fault: the logger `amity`, silent unless somebody listens.

A program that uses the package listens as with any other library, `logging.getLogger("amity")`. The command line
listens for `--log-level` and `--log-file`, by `start` and `stop`. A line holds the time, the level, the logger's name
and what happened. What happens in a run comes from its events: `log_event` listens to them.

No torch here: `amity --help` must answer at once.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from amity.errors import InputError

if TYPE_CHECKING:
    from amity.federation.events import Event

LEVELS = ("debug", "info", "warning", "error")
DEFAULT = "info"
NAME = "amity"

logging.getLogger(NAME).addHandler(logging.NullHandler())


def start(level: str | None = None, file: str | None = None) -> None:
    """Write log lines of this level and above to a file, or to standard error without one; instead of any before."""
    name = DEFAULT if level is None else check_level(level)
    handler = _ToStderr() if file is None else _ToFile(file)
    stop()
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger(NAME)
    logger.setLevel(name.upper())
    logger.addHandler(handler)
    logger.info("amity %s, Python %s, %s", version("amity"), platform.python_version(), platform.platform())


def stop() -> None:
    """Be silent again, and close the file; nothing where nothing was started."""
    logger = logging.getLogger(NAME)
    for handler in [one for one in logger.handlers if isinstance(one, _ToStderr | _ToFile)]:
        logger.removeHandler(handler)
        handler.close()
        logger.setLevel(logging.NOTSET)


def log_torch() -> None:
    """Log which torch computes, and with how many threads; nothing where it has not been loaded."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        cuda = torch.version.cuda if torch.cuda.is_available() else "none"
        logging.getLogger(NAME).info(
            "torch %s, cuda %s, %d threads, %s cores", torch.__version__, cuda, torch.get_num_threads(), os.cpu_count()
        )


_QUIET = ("trained", "measured")  # one for each silo and round
_LOUD = ("dropped", "refused", "aside", "lost", "waiting", "stopped")


def log_event(event: Event) -> None:
    """Log an event of a run: what goes wrong as a warning, each silo's turn for debugging, all else as information."""
    logger = logging.getLogger(f"{NAME}.events")
    level = logging.DEBUG if event.what in _QUIET else logging.WARNING if event.what in _LOUD else logging.INFO
    if logger.isEnabledFor(level):
        logger.log(level, "%s", told(event))


def told(event: Event) -> str:
    """Return an event as a line: "round 3, trained, silo-01, 2 of 5, 840 bytes, 0.120 s: words"."""
    parts = [f"round {event.round}" if event.round else "", event.what, event.silo or ""]
    if event.done is not None:
        parts.append(f"{event.done} of {event.total}")
    if event.bytes is not None:
        parts.append(f"{event.bytes} bytes")
    if event.seconds is not None:
        parts.append(f"{event.seconds:.3f} s")
    return ", ".join(filter(None, parts)) + (f": {event.words}" if event.words else "")


def check_level(level: str) -> str:
    """Return the name of a level in small letters, or refuse one that does not exist."""
    if level.strip().lower() not in LEVELS:
        raise InputError(f"--log-level needs one of {', '.join(LEVELS)}, got {level!r}: try --log-level {DEFAULT}")
    return level.strip().lower()


def visible(text: str) -> str:
    """Return a text in one line that does nothing to a terminal: what is no printable letter is shown as its escape.

    >>> print(visible("two\\nlines, one \\x1b[31mred"))
    two\\nlines, one \\x1b[31mred
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


class _OneLine(logging.Formatter):
    """Lines that begin with the time in ISO 8601; only the traceback of a fault takes more than one."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:
        return "\\n".join(map(visible, super().formatMessage(record).splitlines()))


class _ToStderr(logging.StreamHandler[IO[str]]):
    """Writes to what is standard error at the time: a progress bar puts its own in place, and is not torn by lines."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Go on: a run does not end because its log cannot be written."""


class _ToFile(logging.StreamHandler[IO[str]]):
    """Appends to a file that its owner alone may read, as with all that a run writes."""

    def __init__(self, file: str) -> None:
        try:
            super().__init__(open(Path(file).expanduser(), "a", encoding="utf-8", opener=_private))
        except (OSError, ValueError, RuntimeError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(f"cannot write the log file {file}: {why}: give --log-file another one") from None
        self._failed = False

    def handleError(self, record: logging.LogRecord) -> None:
        """Say once that the log is not complete, and go on: a run does not end because its log cannot be written."""
        if not self._failed:
            self._failed = True
            print(f"amity: the log is not complete: {sys.exception()}", file=sys.stderr)

    def close(self) -> None:
        super().close()
        try:
            self.stream.close()
        except OSError:  # said already, when the last line could not be written
            pass


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
