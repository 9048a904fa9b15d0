"""Outcomes read from disk: a file that somebody has damaged or edited is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from amity.config.run import Run
from amity.errors import InputError
from amity.papers.outcome.content import REQUIRED_KEYS, SHAPES, OutcomeContent
from amity.papers.outcome.outcome import Outcome
from amity.papers.spec import key_of, requested_options
from amity.record.shapes import fits


def path_of(folder: Path, key: str) -> Path:
    """Return where the outcome of the run with this key lies."""
    return folder / "runs" / f"{key}.json"


def read(folder: Path, run: Run) -> Outcome | None:
    """Return the recorded outcome of a run; None where there is none."""
    path = path_of(folder, key_of(run))
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}): remove it to run it again") from error
    if not isinstance(content, dict) or content.get("asked") != json.loads(json.dumps(requested_options(run))):
        raise InputError(f"{path} holds another run than its name says: remove it to run that one again")
    if lacking := [name for name in REQUIRED_KEYS if name not in content]:
        raise InputError(f"{path} must have {', '.join(lacking)}, it does not: remove it to run it again")
    if strange := [name for name in SHAPES if not fits(content, {name: SHAPES[name]})]:
        raise InputError(
            f"{path} has something else than it should as {strange[0].lstrip('?')}: remove it to run it again"
        )
    return Outcome(path, cast(OutcomeContent, content))
