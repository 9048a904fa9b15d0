"""Listeners and runs for tests: hear of rounds as they are recorded, run what was prepared."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amity import record
from amity.federation.events import Event, Listener, silent
from amity.prepare import Prepared
from amity.result import Result
from amity.running import check_target, run_prepared


def recorded(work: Callable[[dict[str, Any]], object]) -> Listener:
    """A listener that hands over the number of each round when it is on record."""

    def listen(event: Event) -> None:
        if event.what == "recorded":
            work({"round": event.round})

    return listen


def run_ready(
    prepared: Prepared,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    listen: Listener = silent,
    note: Callable[[str], None] = warnings.warn,
) -> Result:
    """Run what was prepared, in a directory that is looked at first."""
    if out is not None and resume:
        check_target(prepared, Path(out))
    elif out is not None:
        record.check_free(Path(out), force=force)
    place = None if out is None else Path(out)
    return run_prepared(prepared, out=place, resume=resume, force=force, listen=listen, note=note)
