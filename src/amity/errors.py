"""The errors that Amity raises on purpose, as one small tree.

    AmityError                one line for whoever reads it: the rule, what was received, what to do; exit code 2
    ├── InputError            something that was given cannot be used: an option, data, a model, a method
    │   ├── DamagedFile       a file is not as it was written
    │   └── InputErrors       several of them, each a line of its own
    ├── LostWorker            a process or a machine that did the work is gone
    ├── RefusedUpload         what a silo has sent is not what its method sends
    └── NoSpace               there is no room
        ├── OutOfMemory       in memory; an InputError too, for a smaller run would fit
        └── DiskFull          on disk

Catch `AmityError` to catch them all. Anything else that is raised is a fault of Amity, or of code that was given to it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable


class AmityError(Exception):
    """Any error that Amity raises on purpose: its text is one line that says what to do.

    >>> try:
    ...     amity.run(amity.Run("separate", data="folder:nowhere"))
    ... except amity.AmityError as error:
    ...     print(error)
    nowhere must be a folder with one file or folder per silo, it is not: check the path
    """


class InputError(AmityError, ValueError):
    """Something a user gave cannot be used: the rule, what was received, what to do.

    >>> try:
    ...     amity.Run("fedamp", lr=0.0)
    ... except amity.InputError as error:
    ...     print(error)
    run needs lr to be a number > 0 or one of auto, got 0.0: try lr=auto (the default)
    """


class DamagedFile(InputError):
    """A file is not as it was written: it was changed, cut short or removed."""


class InputErrors(InputError):
    """Several things cannot be used: `lines` has a line for each, and the text all of them."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("; ".join(self.lines))


def several(lines: Iterable[str]) -> InputError:
    """Return one error for one problem or for many."""
    every = tuple(lines)
    return InputError(every[0]) if len(every) == 1 else InputErrors(every)


class LostWorker(AmityError):
    """A process or machine that did the work is gone."""


class RefusedUpload(AmityError):
    """What a silo has sent is not what its method sends: the server uses nothing of it."""


class NoSpace(AmityError):
    """There is no room for what has to be kept."""


class OutOfMemory(NoSpace, InputError):
    """The machine has no memory for what the run needs: fewer silos, a smaller model or files would help."""


class DiskFull(NoSpace):
    """There is no room on disk for what has to be written."""

    @classmethod
    def from_system(cls, error: OSError) -> DiskFull | None:
        """Return the error that says so if the disk or the user's share of it is full; None for any other failure."""
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return None
        return cls(f"there is no room to write ({error.strerror}): make some, or write elsewhere")
