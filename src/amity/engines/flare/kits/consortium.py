"""A consortium: its name, who runs it, and the one address that its silos dial."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from amity.engines.flare.kits.files import read
from amity.errors import DamagedFile, InputError
from amity.small_files import parse_toml

FILE = "consortium.toml"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # of FLARE's letters; 64 is what a certificate can hold
HOST = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)
RESERVED = {"server", "admin", "client", "relay", "all"}  # FLARE's words for whom a command is for, and our own kits
LONGEST = 40 * 365  # days


@dataclass(frozen=True)
class Consortium:
    """What consortium.toml says."""

    name: str
    organisation: str  # that runs the server
    host: str  # by which every silo reaches the server
    port: int  # the only one: silos and the coordinator's own commands share it
    valid_days: int = 365  # of the certificates of silos, server and coordinator
    root_valid_days: int = 3650  # of the root certificate, which cannot be renewed without new kits for everybody


def is_name(value: object) -> bool:
    """True for a plain name, which can be a file's and a certificate's."""
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def is_organisation(value: object) -> bool:
    """True for a line of text that a certificate has room for."""
    return isinstance(value, str) and 0 < len(value.strip()) <= 64 and value.isprintable()


def check_silo_name(name: str) -> None:
    """Refuse a name that a silo cannot have."""
    if not is_name(name) or name.lower() in RESERVED:
        raise InputError(
            f"a silo's name needs 1 to 64 letters, digits, - or _ and to be none of {', '.join(sorted(RESERVED))}, "
            f"got {name!r}: choose another"
        )


def is_loopback(host: str) -> bool:
    """True where the server is reached on its own machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_host(value: object) -> bool:
    """True for a host name or an IPv4 address: FLARE 2.9 takes a second colon for a mistake."""
    return isinstance(value, str) and HOST.fullmatch(value) is not None


def _whole(lowest: int, highest: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


RULES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "name": (is_name, "1 to 64 letters, digits, - or _, the first a letter or digit"),
    "organisation": (is_organisation, "a text of 1 to 64 characters"),
    "host": (_is_host, "a host name or an IPv4 address, without port"),
    "port": (_whole(1, 65535), "a whole number from 1 to 65535"),
    "valid_days": (_whole(1, LONGEST), f"a whole number of days from 1 to {LONGEST}"),
    "root_valid_days": (_whole(1, LONGEST), f"a whole number of days from 1 to {LONGEST}"),
}


def read_consortium(path: Path) -> Consortium:
    """Read consortium.toml; one error names all that is wrong with it."""
    try:
        table = parse_toml(read(path).decode())
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} is not valid TOML: {error}") from error
    problems = _problems(table)
    if problems:
        raise InputError(f"{path}: {'; '.join(problems)}: mend the file")
    return Consortium(**table)


def _problems(table: Mapping[str, Any]) -> list[str]:
    required = [field.name for field in fields(Consortium) if field.default is MISSING]
    found = [f"{key} is missing, it needs to be {RULES[key][1]}" for key in required if key not in table]
    for key, value in table.items():
        if key not in RULES:
            found.append(f"{key} is not known, there are {', '.join(RULES)}")
        elif not RULES[key][0](value):
            found.append(f"{key} needs to be {RULES[key][1]}, got {value!r}")
    return found
