"""Config files: a run, or several, as TOML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amity.config.options import fields_of, unknown
from amity.config.run import Run
from amity.errors import InputError
from amity.small_files import parse_toml, read_small


def read_config(path: str | Path) -> dict[str, Any]:
    """Read a config file: a run's options by name, the method's under [set]; `methods` for a comparison."""
    try:
        content = parse_toml(read_small(path).decode())
    except OSError as error:
        raise InputError(f"cannot read the config file {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"the config file {path} is not valid TOML: {error}") from None
    for key, value in content.items():
        if key not in (*fields_of(Run), "methods", "seeds", "set"):
            raise unknown(f"key in {path}:", key, [*fields_of(Run), "methods", "seeds", "set"])
        if (key == "set") != isinstance(value, dict):
            raise InputError(f"in {path} method options stand in the table [set], all other keys above it: move {key}")
    named = [content.get("method", ""), *_listed(content.get("methods", []))]
    if not all(isinstance(name, str) for name in named):
        raise InputError(f"in {path} method is a name and methods a list of names: put them in quotes")
    return content


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [None]
