"""The process at a silo that answers messages: `python -m amity.site.worker`, with AMITY_SITE in the environment.

Messages come in on standard input, answers go out on standard output, as frames (`frames.py`). Nothing in a message
names a path or code: where data lie, which code a model is and who approves stands in the silo's own folder. Every
message and every answer is a line of the audit, and all that is logged or printed goes to STATE/worker.log.

When there are no more messages, runs that are over are finished: `results.py`. With --answer-only that is left to
whoever has started this process, and may not want to wait for it.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import torch

from amity import logs
from amity.engines.memory import answered
from amity.errors import AmityError, InputError
from amity.federation.messages import Answer, Message, failure
from amity.parent_process import end_with_parent
from amity.site import frames
from amity.site.answering import Worker
from amity.site.config import Site, load_site
from amity.site.keeping import Unwritten
from amity.site.results import finish_due

VARIABLE, LOG = "AMITY_SITE", "worker.log"
ANSWER_ONLY = "--answer-only"

PATIENCE = 60.0
"""Seconds to wait for the worker before, which may be an orphan, or at the end of the run before this one."""


class Unable:
    """Answers for a silo that cannot begin, for a reason that the server may know."""

    def __init__(self, error: AmityError) -> None:
        self._error = error

    def safely(self, message: Message) -> Answer:
        """The reason, whatever is asked."""
        return failure(message, self._error)


class Words(io.TextIOBase):
    """Where words are written that a full disk may swallow: no worker ends because of them."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def write(self, text: str, /) -> int:
        with suppress(OSError):
            os.write(self._handle, text.encode(errors="replace"))
        return len(text)

    def fileno(self) -> int:
        """The file that programs started from here write to as well."""
        return self._handle


def main() -> None:
    """Answer messages of standard input, for the silo whose folder AMITY_SITE names."""
    end_with_parent()  # however that one ends: nobody would take the answer
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever else is printed does not belong among the answers
    worker = None
    try:
        site = site_here()
        worker = Worker(site, patience=PATIENCE)
        _keep_words(site.state / LOG)
    except AmityError as error:
        print(f"amity: {error}", file=sys.stderr)
        if isinstance(error, Unwritten) and worker is None:
            frames.serve(partial(answered, Unable(error)), sys.stdin.buffer, answers)
        sys.exit(2)
    torch.set_num_threads(site.threads)  # with more than one, sums are taken in another order than in a simulation
    frames.serve(worker.exchange, sys.stdin.buffer, answers)
    worker.close()  # now: the next worker need not wait for what follows
    if ANSWER_ONLY not in sys.argv:
        finish_due(site)


def _keep_words(log: Path) -> None:
    """Keep all that is logged or printed from now on in the silo's state folder: code that has seen data may quote it,
    and the kit's own logs are not for that."""
    logs.start("info", str(log))
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    sys.stdout = sys.stderr = Words(sys.stderr.fileno())


def site_here() -> Site:
    """The silo whose folder the environment names."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise InputError(f"{VARIABLE} must name the folder of a silo, it is not set: set it")
    return load_site(Path(folder))


if __name__ == "__main__":
    main()
