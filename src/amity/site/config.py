"""A silo's own configuration, `SITE/silo.toml`. Nothing in it ever comes from a message, and none of it is sent.

    name = "north"                      # as the consortium knows it
    state = "../north-state"            # a folder outside the kit: approvals, what was learnt, results
    data = "patients.csv"               # csv, parquet, npz, or a folder: what `--data folder:` takes for one silo
    label = "diagnosis"                 # the column of the labels, in tables
    drop_columns = ["id"]               # columns to leave out
    schema = "schema.toml"              # insist on this schema: a contract with another is refused. Not needed else
    test_fraction = 0.2                 # held out where the data bring no test part; else what the run says
    factory = "my_data:load"            # instead of `data`: a function that gives x_train, y_train, x_test, y_test
    model = "my_models:build"           # the code of a model of one's own, which a contract only names
    threads = 1                         # more may change the last bits of a model
    device = "cpu"

    [policy]                            # which runs may begin without an approval by hand: federation/policy.py

Paths are relative to the file. Modules are looked for beside the file too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from amity.config.options import nearest
from amity.errors import InputError
from amity.federation.contract_rules import FACTORY, NAME
from amity.federation.policy import SiloPolicy, policy_of
from amity.finite import is_finite
from amity.small_files import parse_toml, read_small

FILE = "silo.toml"
KIT = "kit"


@dataclass(frozen=True)
class Site:
    """A silo's own configuration, checked; paths are absolute."""

    folder: Path
    name: str
    state: Path
    policy: SiloPolicy
    data: Path | None = None
    factory: str | None = None
    label: str | None = None
    drop_columns: tuple[str, ...] = ()
    schema: Path | None = None
    test_fraction: float | None = None
    model: str | None = None
    threads: int = 1
    device: str = "cpu"

    @property
    def kit(self) -> Path:
        """The folder that came from the consortium."""
        return self.folder / KIT

    def run(self, name: str) -> Path:
        """The folder of a run, where all that is known of it here lies."""
        if not NAME.fullmatch(name):
            raise InputError(f"a run's name is letters, digits, - and _, got {name!r:.60}: it becomes a folder")
        return self.state / "runs" / name


def load_site(folder: str | Path) -> Site:
    """Return the configuration in a silo's folder. All that is wrong with it is said at once."""
    folder = Path(folder).resolve()
    file = folder / FILE
    try:
        table = parse_toml(read_small(file).decode())
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror or error}): give the folder of a silo") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not valid TOML ({error}): mend it") from None
    return site_of(table, folder)


def site_of(table: Mapping[str, Any], folder: Path) -> Site:
    """Return the configuration that a table describes; `folder` is where its paths begin."""
    reader = _Reader(table, folder.resolve())
    found = {
        "name": reader.text("name", NAME, "letters, digits, - and _", needed=True),
        "state": reader.path("state", needed=True),
        "data": reader.path("data"),
        "factory": reader.text("factory", FACTORY, "module:function"),
        "label": reader.text("label"),
        "drop_columns": reader.texts("drop_columns"),
        "schema": reader.path("schema"),
        "test_fraction": reader.share("test_fraction"),
        "model": reader.text("model", FACTORY, "module:function"),
        "threads": reader.count("threads", 1),
        "device": reader.text("device") or "cpu",
        "policy": reader.policy(),
    }
    reader.check_keys()
    reader.check_together(found)
    if reader.problems:
        raise InputError(f"{folder / FILE}: {'; '.join(reader.problems)}")
    return Site(folder=folder.resolve(), **found)


class _Reader:
    """Reads one key after the other, and collects what is wrong."""

    def __init__(self, table: Mapping[str, Any], folder: Path) -> None:
        self._table = table
        self._folder = folder
        self.problems: list[str] = []

    def text(self, key: str, form: re.Pattern[str] | None = None, rule: str = "", *, needed: bool = False) -> Any:
        value = self._table.get(key)
        if value is None:
            if needed:
                self.problems.append(f"{key} is missing: add it")
            return None
        fits = isinstance(value, str) and bool(value.strip()) and (form is None or form.fullmatch(value))
        return self._checked(key, value, fits, rule or "text that is not empty")

    def path(self, key: str, *, needed: bool = False) -> Path | None:
        value = self.text(key, needed=needed)
        if not isinstance(value, str):
            return None
        path = (self._folder / Path(value).expanduser()).resolve()
        if path.is_relative_to((self._folder / KIT).resolve()):
            self.problems.append(
                f"{key} must lie outside the kit, which belongs to the network's software, got {value}: move it"
            )
        return path

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._table.get(key, [])
        fits = isinstance(value, list) and all(isinstance(item, str) and item for item in value)
        return tuple(self._checked(key, value, fits, "a list of texts") or ())

    def share(self, key: str) -> float | None:
        value = self._table.get(key)
        checked = self._checked(key, value, value is None or is_finite(value) and 0 < value < 1, "a number > 0 and < 1")
        return None if checked is None else float(checked)

    def count(self, key: str, default: int) -> int:
        value = self._table.get(key, default)
        return self._checked(key, value, type(value) is int and 1 <= value <= 1024, "a whole number from 1") or default

    def policy(self) -> SiloPolicy | None:
        try:
            return policy_of(self._table.get("policy", {}))
        except InputError as error:
            self.problems.append(str(error))
            return None

    def check_keys(self) -> None:
        known = [field.name for field in fields(Site) if field.name != "folder"]
        for key in self._table.keys() - set(known):
            self.problems.append(f"unknown key {key!r:.60}: {nearest(key, known)}")

    def check_together(self, found: Mapping[str, Any]) -> None:
        brought = [key for key in ("data", "factory") if key in self._table]
        if len(brought) != 1:
            got = " and ".join(brought) or "neither"
            self.problems.append(f"a silo's data are named by data or by factory, got {got}: give one of them")
        if "factory" in self._table and (found["label"] or found["drop_columns"] or found["schema"]):
            self.problems.append(
                "label, drop_columns and schema are about a table's columns, got a factory: leave them out"
            )

    def _checked(self, key: str, value: Any, fits: object, rule: str) -> Any:
        if fits:
            return value
        self.problems.append(f"{key} must be {rule}, got {value!r:.80}: change it")
        return None
