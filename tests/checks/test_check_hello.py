"""What a silo is told by the server that it asks: clocks, versions, and whether its kit runs elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import pytest

from amity.checks.findings import Account, Finding
from amity.checks.hello import tell
from amity.checks.silo import SAID_BY_SERVER
from amity.engines.flare.hello import Heard
from amity.federation.presence import Greeting, Service
from amity.site.session import Session

Find = Callable[[Account, str], Finding]
NOW = 1000.0
HERE, THERE = "1" * 32, "2" * 32
OWN = Session(HERE, 7, 800.0, 999.0, 0.0, "0.1.0", "")


def service(mark: str, since: float = 900.0, heard: float = 999.0) -> Service:
    return Service(mark, since, heard, 0.0, "0.1.0")


def greeting(*services: Service, amity: str = version("amity"), removed: bool = False) -> Greeting:
    return Greeting(NOW, amity, removed, tuple(sorted(services, key=lambda one: one.since)))


def told(said: Greeting | None, own: Session | None = None, *, here: bool = False, skew: float = 0.0) -> Account:
    account = Account()
    tell(account, Heard(said, skew, 0.1), own, here)
    assert sorted(one.check for one in account.findings) == sorted(SAID_BY_SERVER)
    return account


def test_a_silo_that_is_alone_and_well(only: Find) -> None:
    account = told(greeting(service(HERE)), OWN, here=True)
    assert {one.grade for one in account.findings} == {"PASS"}


@pytest.mark.parametrize(
    ("skew", "grade", "words"),
    [
        (4.0, "PASS", "4.0 s behind the server's"),
        (-4.0, "PASS", "4.0 s ahead of the server's"),
        (6.0, "WARN", "6.0 s behind"),
        (-3599.0, "WARN", "3,599.0 s ahead"),
        (3601.0, "FAIL", "certificates may be refused"),
        (-86400.0, "FAIL", "86,400.0 s ahead"),
    ],
)
def test_clocks(skew: float, grade: str, words: str, only: Find) -> None:
    found = only(told(greeting(), skew=skew), "clock")
    assert found.grade == grade and words in found.found


def test_the_servers_version(only: Find) -> None:
    first, second, *rest = version("amity").split(".")
    assert only(told(greeting(amity=f"{first}.{second}.99")), "server's version").grade == "PASS"
    found = only(told(greeting(amity=f"{first}.{int(second) + 1}.0")), "server's version")
    assert found.grade == "FAIL" and f"there {first}.{int(second) + 1}.0" in found.found


def test_a_silo_that_was_removed(only: Find) -> None:
    found = only(told(greeting(removed=True)), "membership")
    assert found.grade == "FAIL" and "no member any more" in found.found


@pytest.mark.parametrize(
    ("services", "own", "here", "grade"),
    [
        ([], None, False, "PASS"),
        ([service(THERE)], None, False, "FAIL"),
        ([service(THERE)], OWN, False, "FAIL"),
        ([service(HERE)], OWN, False, "PASS"),  # it was stopped here a moment ago
        ([service(THERE, heard=970.0)], OWN, False, "PASS"),  # it has ended, wherever it ran
        ([service(HERE), service(THERE, since=800.0)], OWN, True, "FAIL"),
        ([service(HERE), service(THERE, since=950.0)], OWN, True, "FAIL"),
        ([service(HERE, since=990.0), service(THERE, since=700.0, heard=989.0)], OWN, True, "PASS"),  # the one before
        ([service(THERE)], OWN, True, "FAIL"),  # ours is not heard of at all
    ],
)
def test_the_same_kit_elsewhere(
    services: list[Service], own: Session | None, here: bool, grade: str, only: Find
) -> None:
    found = only(told(greeting(*services), own, here=here), "elsewhere")
    assert found.grade == grade
    assert grade == "PASS" or "runs in another place" in found.found


def test_a_server_that_is_too_old_to_tell(only: Find) -> None:
    account = told(None)
    assert only(account, "clock").grade == "WARN" and only(account, "elsewhere").grade == "SKIP"
