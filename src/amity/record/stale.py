"""What a run that is replaced leaves behind: the run beside it in which every silo trained alone.

A verdict compares the two. Where the method runs anew and the silos do not train alone again, the older run is of other
options, and a verdict against it would be of two things that never belonged together.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from amity.config.references import ALONE, ALONE_FOLDER, REFERENCES
from amity.errors import InputError
from amity.record.directory import REPORT, check_free, holds_run, remove_run
from amity.record.lock import Lock
from amity.record.results import RESULTS

_SEED = re.compile(r"seed-\d+")


def remove_stale_alone(path: Path, renewed: Collection[Path]) -> Path | None:
    """Remove the run alone that belongs to this one, unless it is among those that are made anew.

    The results and the report that were made from both go with it. Returns the directory, where there was one.
    """
    whole = path.parent if _SEED.fullmatch(path.name) else path
    alone = whole / ALONE_FOLDER / path.name if whole != path else path / ALONE_FOLDER
    if alone in renewed or not holds_run(alone):
        return None
    check_free(alone, force=True)  # files of somebody else's stay
    lock = Lock(alone)
    try:
        remove_run(alone)
    finally:
        lock.release()
    for file in (whole / RESULTS, whole / REPORT):
        file.unlink(missing_ok=True)
    for folder in (alone, alone.parent):
        if folder != path and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return alone


def refuse_stale_alone(target: Path, methods: Collection[str]) -> None:
    """Refuse to replace the runs of a comparison beside an older run alone that would stay and be compared with.

    It is not removed: a comparison's directories may have been made by other commands, for their own sake.
    """
    place = target / ALONE
    if (
        set(methods) <= set(REFERENCES)
        or ALONE in methods
        or not (holds_run(place) or any(map(holds_run, place.glob("seed-*"))))
    ):
        return
    raise InputError(
        f"{place} holds an older run, with which new runs beside it would be compared: leave out --no-alone, remove "
        "it, or give another --out"
    )
