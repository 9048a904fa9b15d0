"""The command that repeats a run."""

from __future__ import annotations

import shlex
from typing import Any

from amity.config.options import fields_of
from amity.config.run import Run
from amity.models import MODELS
from amity.record import Record


def command_of(record: Record) -> str:
    """Return the command that runs this again, with what differs from the defaults.

    What a command cannot give, as silos and models that came from Python, is named behind it.
    """
    config = record.config
    name = str(config.get("method", record.facts["method"]))
    if record.models_elsewhere:
        return "amity federation submit RUN.toml --hub HUB  # the contract that the silos agreed to is in the hub"
    flags = [word for key, value in config.items() for word in _flag(key, value)]
    settings = [word for key, value in config.get("set", {}).items() for word in ("--set", f"{key}={_text(value)}")]
    command = shlex.join(["amity", "run", name, *flags, *settings])
    given = [
        *(["the silos"] if record.facts["setting"] == "own" else []),
        *(["the model"] if record.facts["model"] not in MODELS else []),
    ]
    return f"{command}  # with {' and '.join(given)} that Python has given" if given else command


def _flag(key: str, value: Any) -> list[str]:
    fields = fields_of(Run)
    if key == "method" or key not in fields or value == fields[key].default:
        return []
    return ["--" + key.replace("_", "-"), _text(value)]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
