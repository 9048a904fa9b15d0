"""The command that runs what was found."""

from __future__ import annotations

import shlex
from typing import Any

from amity.config.run import Run
from amity.papers.spec.keys import requested_options


def command_of(run: Run, data_dir: str | None = None) -> str:
    """Return the command for a run: method, data, and every option in which it differs from a run without any."""
    options = {"data": run.data, **requested_options(run)}
    method, own = options.pop("method"), options.pop("set", {})
    words = ["amity", "run", method]
    for key, value in options.items():
        words += ["--" + key.replace("_", "-"), _text(value)]
    for key, value in own.items():
        words += ["--set", f"{key}={_text(value)}"]
    if data_dir is not None:
        words += ["--data-dir", data_dir]
    return shlex.join(words)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(value)
