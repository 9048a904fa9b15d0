"""The way to a server: every way to fail has its own words, and none takes long."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from amity.checks import network
from amity.checks.findings import Account, Finding

Find = Callable[[Account, str], Finding]


def test_a_server_that_is_there(account: Account, only: Find, listen: Callable[..., int]) -> None:
    port = listen(lambda connection: None)
    assert network.find_server(account, "localhost", port) == "127.0.0.1"
    assert only(account, "name").found == "localhost is 127.0.0.1"
    assert only(account, "port").grade == "PASS"


def test_an_address_needs_no_name(account: Account, only: Find, listen: Callable[..., int]) -> None:
    assert network.find_server(account, "127.0.0.1", listen(lambda connection: None)) == "127.0.0.1"
    assert "no name has to be" in only(account, "name").found


def test_a_name_that_nobody_knows(account: Account, only: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert network.find_server(account, "hub.example.org", 8443) is None
    assert only(account, "name").grade == "FAIL" and "not known" in only(account, "name").found
    assert only(account, "port").grade == "SKIP", "its cause was told already"


def test_a_name_service_that_does_not_answer(account: Account, only: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(30))
    monkeypatch.setattr(network.resolve, "__defaults__", (0.1,))
    begun = time.monotonic()
    assert network.find_server(account, "hub.example.org", 8443) is None
    assert time.monotonic() - begun < 5
    assert "no answer" in only(account, "name").found


def test_names_that_are_none(account: Account, only: Find) -> None:
    assert network.find_server(account, "a" * 70 + ".example", 8443) is None
    assert only(account, "name").grade == "FAIL"


def test_a_closed_port(account: Account, only: Find, free_port: int) -> None:
    assert network.find_server(account, "localhost", free_port) is None
    found = only(account, "port")
    assert found.grade == "FAIL" and "refuses" in found.found and "server is down" in found.found


def test_a_port_behind_a_firewall_that_drops(account: Account, only: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener whose queue is full takes no more connections, and says nothing."""
    monkeypatch.setattr(network, "LIMIT", 0.3)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        try:
            assert network.find_server(account, "127.0.0.1", port) is None
        finally:
            for one in waiting:
                one.close()
    assert "gives no answer" in only(account, "port").found and "firewall" in only(account, "port").found


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError(), "firewall drops"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "nothing listens"),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset"), "resets it"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "no way from here"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "no way from here"),
        (OSError(errno.EACCES, "Permission denied"), "Permission denied"),
    ],
)
def test_each_failure_has_its_own_words(error: OSError, words: str) -> None:
    found, remedy = network.told(error, "hub.example.org, port 8443")
    assert words in found and "hub.example.org" in found and remedy


@pytest.mark.parametrize(
    ("settings", "is_told"),
    [
        ({}, False),
        ({"https_proxy": "http://me:secret@proxy:3128/"}, True),
        ({"https_proxy": "http://proxy:3128", "no_proxy": "other.org,.example.org"}, False),
        ({"https_proxy": "http://proxy:3128", "no_proxy": "hub.example.org"}, False),
        ({"https_proxy": "http://proxy:3128", "no_proxy": "ample.org"}, True),
    ],
)
def test_a_proxy(account: Account, only: Find, settings: dict[str, Any], is_told: bool) -> None:
    network.check_proxy(account, "hub.example.org", settings)
    assert bool(account.findings) == is_told
    if is_told:
        found = only(account, "proxy")
        assert found.grade == "WARN" and "proxy:3128" in found.found and "secret" not in str(found)
