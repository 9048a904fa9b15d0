"""What a silo keeps on disk: its state folder is held by one worker, and what cannot be written is said in one line.

The line crosses to the server, so that it names the silo and the reason and no path.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from safetensors import SafetensorError

from amity.contract import State
from amity.errors import InputError, NoSpace
from amity.federation.membership import grow_client, with_member
from amity.federation.plan import Member
from amity.federation.stored_silo import NEW, StoredSilo
from amity.site.config import Site

PATIENCE = 2.0
"""Seconds that a worker waits for the one before it, which may just be ending."""


class Held(InputError):
    """Another worker holds the silo's state folder."""


class Unwritten(NoSpace):
    """The silo's state folder cannot be written to: it is full, gone or read-only."""


class KeptSilo(StoredSilo):
    """A silo whose state lies in a folder; what is in memory counts only once it is on disk."""

    unsaved = False  # whether memory is ahead of the disk: then the folder has to be read again

    def grow(self, member: Member) -> None:
        """Go on in a federation with one more silo, also where it is not known yet what became of the last turn."""
        method, task, before, *_ = self.plan
        after = with_member(before, member)

        def larger(state: State) -> State:
            return grow_client(method, task, before, after, self.client, state)

        self.state = larger(self.state)
        if self.last is not None:
            # The question is forgotten: a turn that is asked for again is one in the larger federation.
            self.last = self.last._replace(before=larger(self.last.before), after=larger(self.last.after), question="")
            if self.pending is not None:
                self.pending = self.pending._replace(after=self.last.after)
        self.plan = self.plan._replace(fed=after)
        self._save()

    def _save(self) -> None:
        try:
            super()._save()
        except (OSError, SafetensorError) as error:
            self.unsaved = True
            shutil.rmtree(self._folder / NEW, ignore_errors=True)  # half of it is of no use, and takes room
            raise _unwritten(self.name, error) from error


@contextmanager
def writing(site: Site) -> Iterator[None]:
    """Turn a disk that is full, gone or read-only into one line."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise _unwritten(site.name, error) from error


def _unwritten(name: str, error: OSError | SafetensorError) -> Unwritten:
    words = str(error) if isinstance(error, SafetensorError) else error.strerror or type(error).__name__
    reason = words.removeprefix("Error while serializing: ")[:100]
    return Unwritten(f"silo {name} cannot write to its state folder ({reason}): make room there, or mend it")


def held(site: Site, patience: float = PATIENCE) -> IO[bytes]:
    """Hold the silo's state folder, as long as what comes back is open; a process lets go of it however it ends."""
    with writing(site):
        site.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = (site.state / "lock").open("ab")
    until = time.monotonic() + patience
    while not _locked(handle):
        if time.monotonic() > until:
            handle.close()
            raise Held(f"another worker of silo {site.name} holds {site.state}: wait until it has ended, or end it")
        time.sleep(0.05)
    return handle


def _locked(handle: IO[bytes]) -> bool:
    with suppress(ImportError):  # Windows: nothing is locked there
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
