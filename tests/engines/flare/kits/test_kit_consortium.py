"""consortium.toml: what it says, and that all that is wrong is said at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from amity.engines.flare.kits.consortium import Consortium, check_silo_name, is_loopback, read_consortium
from amity.errors import DamagedFile, InputError

GOOD = {"name": '"hearts"', "organisation": '"Uni, Städte & Co"', "host": '"hub.example.org"', "port": "8443"}


def written(path: Path, **changes: str | None) -> Path:
    lines = {**GOOD, **changes}
    file = path / "consortium.toml"
    file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items() if value is not None))
    return file


def test_what_it_says(tmp_path: Path) -> None:
    file = written(tmp_path, valid_days="30", root_valid_days="60")
    assert read_consortium(file) == Consortium("hearts", "Uni, Städte & Co", "hub.example.org", 8443, 30, 60)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", '"two words"'),
        ("name", '"-option"'),
        ("name", '"../up"'),
        ("name", "7"),
        ("name", f'"{"n" * 65}"'),
        ("organisation", '""'),
        ("organisation", '"a\\nb"'),
        ("host", '"hub:8443"'),
        ("host", '"::1"'),  # FLARE 2.9 cannot
        ("host", '"-hub"'),
        ("port", "0"),
        ("port", "65536"),
        ("port", "true"),
        ("port", '"8443"'),
        ("valid_days", "0"),
        ("root_valid_days", "1.5"),
        ("admin_port", "8444"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(InputError, match=rf"consortium\.toml: {key} "):
        read_consortium(written(tmp_path, **{key: value}))


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read_consortium(written(tmp_path, name='"a b"', port="0", host=None, colour='"red"'))
    for word in ("name needs", "port needs", "host is missing", "colour is not known"):
        assert word in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    file = tmp_path / "consortium.toml"
    file.write_text("name = ")
    with pytest.raises(DamagedFile, match="not valid TOML"):
        read_consortium(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_consortium(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "name", ["server", "Server", "all", "admin", "", "a b", "a/b", "..", "-x", "coordinator@hearts"]
)
def test_names_that_no_silo_can_have(name: str) -> None:
    with pytest.raises(InputError, match="a silo's name needs"):
        check_silo_name(name)


def test_which_hosts_are_this_machine() -> None:
    assert [is_loopback(host) for host in ("localhost", "127.0.0.1", "127.0.0.9", "10.0.0.1", "hub.example.org")] == [
        True,
        True,
        True,
        False,
        False,
    ]
