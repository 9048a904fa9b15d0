"""The name of a run on disk, which follows from what the run is asked to do."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from amity.config.options import fields_of, names_of
from amity.config.run import Run

_WITHOUT_EFFECT = names_of(Run, lambda role: role.neutral)
"""Options that do not change what comes out of a run."""


def requested_options(run: Run) -> dict[str, Any]:
    """Return the options in which a run differs from a run without any, leaving out those that change no result."""
    defaults = {name: field.default for name, field in fields_of(Run).items()}
    table = run.table()
    given = {key: table[key] for key in defaults if key not in _WITHOUT_EFFECT and table[key] != defaults[key]}
    return {"method": run.method, **given, **({"set": table["set"]} if table["set"] else {})}


def key_of(run: Run) -> str:
    """Return a run's name on disk: readable, and different for every run that could come out differently."""
    text = json.dumps(requested_options(run), sort_keys=True)
    setting = run.setting.partition(":")[0]
    words = (run.data.partition(":")[0], setting, run.method)
    return f"{'-'.join(words)}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
