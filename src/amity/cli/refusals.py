"""What a command says when it cannot go on, and its exit code."""

from __future__ import annotations

import errno
import logging
import sys
from pathlib import Path

from amity.cli.streams import OutputLost, drop_output
from amity.errors import AmityError, DiskFull, InputErrors
from amity.logs import visible

LONGEST = 3000
"""Letters of one line: more are no help."""

_log = logging.getLogger("amity.cli")


def exit_code_of(error: Exception) -> int:
    """Say in a line what is wrong, in several where several things are, and return the exit code.

    An error that is no fault of the user's is raised again.
    """
    if isinstance(error, OutputLost):
        drop_output()
        if error.errno in (errno.EPIPE, errno.EIO):  # `| head` has read enough, or the terminal is gone
            return 1
    line = _line_of(error)
    if line is None:
        _log.critical("a fault of Amity, or of code that was given to it", exc_info=error)
        raise error
    trace = error if _log.isEnabledFor(logging.DEBUG) else None
    _log.error("%s: %s", type(error).__name__, visible(line), exc_info=trace)
    for one in error.lines if isinstance(error, InputErrors) else [line]:
        print(f"amity: {_shown(one)}", file=sys.stderr)
    return 2


def _shown(text: str) -> str:
    """Return an error as a line that fits on a screen, whatever the user's own words in it are."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"


def _line_of(error: Exception) -> str | None:
    """Return what to tell the user; None where there is no remedy but to mend the program."""
    if isinstance(error, AmityError):
        return str(error)
    if isinstance(error, OutputLost) and error.errno == errno.EBADF:
        return "standard output is closed, and what was to be printed is lost: leave it open"
    if isinstance(error, OSError) and (full := DiskFull.from_system(error)):
        return str(full)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        longest = max(Path(str(error.filename)).parts, key=len)
        return f"a file name is too long for this file system ({longest[:20]}...): give a shorter one"
    # typer carries its own copy of click, whose usage errors know their message and their command
    usage = getattr(error, "format_message", None)
    if not callable(usage):
        return None
    words, command = str(usage()), getattr(getattr(error, "ctx", None), "command_path", "")
    return f"{words.rstrip('.')} (see `{command} -h`)" if command else words
