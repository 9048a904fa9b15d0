"""The configuration in a run directory: how options are written, and which may change when a run is resumed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from amity.config.options import fields_of, names_of
from amity.config.run import Run
from amity.errors import InputError
from amity.record.contents import Config

CHANGEABLE_KEYS = names_of(Run, lambda role: role.on_resume != "fixed")
"""Top-level configuration keys that may change on resume; rounds may only grow."""


def config_text(config: Config) -> bytes:
    """Return the text of `config.toml`."""
    return tomli_w.dumps(config).encode()


def as_written(config: Mapping[str, Any]) -> Config:
    """Return the configuration as TOML gives it back: without None, with lists for tuples and text for paths."""

    def clean(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): clean(item) for key, item in value.items() if item is not None}
        if isinstance(value, (list, tuple)):
            return [clean(item) for item in value]
        return str(value) if isinstance(value, Path) else value

    return tomllib.loads(tomli_w.dumps(clean(config)))


def refuse_other_config(path: Path, before: Config, now: Config) -> None:
    """Refuse to resume the run in `path` under another configuration, which would be neither run.

    The first key that differs is told, in the order of a run's options: those that others follow from come first.
    """
    old, new = _flat(before), _flat(now)
    old = {**_later(new.keys() - old.keys(), new), **old}
    for key in dict.fromkeys([*new, *old]):
        if key not in CHANGEABLE_KEYS and old.get(key) != new.get(key):
            was, got = (repr(known[key]) if key in known else "not set" for known in (old, new))
            raise InputError(f"{path} has {key} = {was}, got {got}: resume with the same value")
    if new["rounds"] < old.get("rounds", 0):
        raise InputError(f"{path} was started for {old['rounds']} rounds, got {new['rounds']}: rounds may only grow")
    if new["rounds"] > old.get("rounds", 0) and new.get("dp_epsilon", "none") != "none":
        raise InputError(
            f"{path} has spent dp_epsilon {new['dp_epsilon']:g} on {old['rounds']} rounds, got {new['rounds']}: "
            "its privacy is used up, begin another run"
        )


def _later(keys: Iterable[str], new: Mapping[str, Any]) -> Config:
    """Return options that an older version did not know, with their defaults or what these resolve to."""
    fields = fields_of(Run)
    known = {key: fields[key].default for key in keys if key in fields}
    return {key: new[key] if default == "auto" else default for key, default in known.items()}


def _flat(config: Mapping[str, Any], prefix: str = "") -> Config:
    """Return nested keys with dots between them."""
    flat: Config = {}
    for key, value in config.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
