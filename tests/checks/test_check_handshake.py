"""TLS with real servers: whose certificate answers, and what is wrong with it, or with ours."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

from amity.checks import handshake
from amity.checks.findings import Account, Finding
from amity.checks.handshake import Dialled, shake_hands

Find = Callable[[Account, str], Finding]
Start = Callable[..., int]


def dialled(port: int, host: str = "localhost") -> Dialled:
    return Dialled(host, "127.0.0.1", port)


@pytest.mark.parametrize("newest", [None, ssl.TLSVersion.TLSv1_2])
def test_both_sides_are_content(authority: Any, tls_server: Start, account: Account, only: Find, newest: Any) -> None:
    server = authority.server()
    port = tls_server(server, authority.root, newest=newest)
    assert shake_hands(account, dialled(port), authority.credentials()) == server.certificate
    assert only(account, "TLS").grade == "PASS" and "TLSv1." in only(account, "TLS").found
    assert "'server' of House of server" in only(account, "server's certificate").found


def test_a_server_that_waits_to_be_greeted(authority: Any, tls_server: Start, account: Account, only: Find) -> None:
    port = tls_server(authority.server(), authority.root, waits=True)
    assert shake_hands(account, dialled(port), authority.credentials()) is not None
    assert only(account, "TLS").grade == "PASS"


def test_a_certificate_of_another_authority(
    authority: Any, stranger: Any, tls_server: Start, account: Account, only: Find
) -> None:
    """Even of one with the same name: it is a firewall that opens TLS, or another consortium."""
    theirs = type(authority)(stranger, authority.folder)
    port = tls_server(theirs.server("inspector"), stranger)
    assert shake_hands(account, dialled(port), authority.credentials()) is None
    found = only(account, "server's certificate")
    assert found.grade == "FAIL" and "'inspector'" in found.found and "not by this consortium's root" in found.found
    assert "inspect" in found.remedy
    assert only(account, "TLS").grade == "SKIP"


@pytest.mark.parametrize(
    ("when", "words"), [({"begins": -9, "ends": -2}, "expired on"), ({"begins": 2, "ends": 9}, "valid only from")]
)
def test_a_server_out_of_its_time(
    authority: Any, tls_server: Start, account: Account, only: Find, when: dict[str, float], words: str
) -> None:
    port = tls_server(authority.server(**when), authority.root)
    assert shake_hands(account, dialled(port), authority.credentials()) is None
    assert only(account, "server's certificate").grade == "FAIL"
    assert words in only(account, "server's certificate").found


def test_a_server_that_is_about_to_expire(authority: Any, tls_server: Start, account: Account, only: Find) -> None:
    port = tls_server(authority.server(ends=20), authority.root)
    assert shake_hands(account, dialled(port), authority.credentials()) is not None
    found = only(account, "server's certificate")
    assert found.grade == "WARN" and "in 19 days" in found.found and "renew server" in found.remedy


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_server_of_another_name(authority: Any, tls_server: Start, account: Account, only: Find, host: str) -> None:
    port = tls_server(authority.server(hosts=("hub.example.org", "192.0.2.1")), authority.root)
    assert shake_hands(account, dialled(port, host), authority.credentials()) is None
    found = only(account, "server's certificate")
    assert f"for hub.example.org, 192.0.2.1, and the kit dials {host}" in found.found


@pytest.mark.parametrize("newest", [None, ssl.TLSVersion.TLSv1_2])
def test_a_server_that_knows_us_not(
    authority: Any, stranger: Any, tls_server: Start, account: Account, only: Find, newest: Any
) -> None:
    """With TLS 1.3 that is said after the handshake, before it with TLS 1.2."""
    port = tls_server(authority.server(), stranger, newest=newest)
    assert shake_hands(account, dialled(port), authority.credentials()) is None
    found = only(account, "TLS")
    assert found.grade == "FAIL" and "refuses the certificate of this silo" in found.found


def test_our_certificate_expired_at_the_server(authority: Any, tls_server: Start, account: Account, only: Find) -> None:
    ended = authority.server("north", (), begins=-9, ends=-2)
    port = tls_server(authority.server(), authority.root)
    assert shake_hands(account, dialled(port), authority.credentials(ended)) is None
    assert "certificate expired" in only(account, "TLS").found and "clock" in only(account, "TLS").remedy


def test_a_silent_port(
    account: Account, authority: Any, listen: Callable[..., int], only: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "LIMIT", 0.3)
    port, begun = listen(lambda connection: None), time.monotonic()
    assert shake_hands(account, dialled(port), authority.credentials()) is None
    assert time.monotonic() - begun < 5
    assert "says nothing" in only(account, "TLS").found


def test_a_server_that_is_silent_after_the_handshake(
    account: Account, authority: Any, tls_server: Start, only: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "LIMIT", 1.0)
    port = tls_server(authority.server(), authority.root, greeting=b"")
    assert shake_hands(account, dialled(port), authority.credentials()) is None
    assert only(account, "TLS").grade == "WARN"


def test_a_server_that_sends_a_byte_now_and_then(
    account: Account, authority: Any, listen: Callable[..., int], only: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "LIMIT", 0.4)

    def drip(connection: socket.socket) -> None:
        for byte in bytes([22, 3, 3, 64, 0]) + bytes(200):  # the beginning of a long record
            connection.sendall(bytes([byte]))
            time.sleep(0.1)

    begun = time.monotonic()
    assert shake_hands(account, dialled(listen(drip)), authority.credentials()) is None
    assert time.monotonic() - begun < 5
    assert "says nothing" in only(account, "TLS").found


def reset(connection: socket.socket) -> None:
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def hang_up(connection: socket.socket) -> None:
    connection.recv(10_000)
    connection.close()


def plain_http(connection: socket.socket) -> None:
    connection.recv(10_000)
    connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
    connection.close()


@pytest.mark.parametrize(
    ("serve", "words"), [(reset, "resets it"), (hang_up, "hangs up as soon as"), (plain_http, "does not speak TLS")]
)
def test_what_is_no_tls(
    account: Account, authority: Any, listen: Callable[..., int], only: Find, serve: Any, words: str
) -> None:
    assert shake_hands(account, dialled(listen(serve)), authority.credentials()) is None
    assert only(account, "TLS").grade == "FAIL" and words in only(account, "TLS").found


def test_names_in_certificates_are_not_believed(
    authority: Any, stranger: Any, tls_server: Start, account: Account, only: Find
) -> None:
    theirs = type(authority)(stranger, authority.folder)
    port = tls_server(theirs.server("all\x1b[2J is\nwell"), stranger)
    assert shake_hands(account, dialled(port), authority.credentials()) is None
    assert only(account, "server's certificate").found.isprintable()
