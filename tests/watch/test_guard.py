"""Who may look: methods, names of this machine, tokens, and what every answer carries."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, NamedTuple

import pytest

from amity.errors import InputError
from amity.watch.guard import POLICY, Guard, Message, Receive, Scope, Send, is_loopback, new_token

TOKEN = "a-token-of-some-length"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"hello"})


def at_once(answering: Coroutine[Any, Any, None]) -> None:
    """Let the guard answer. It waits for nothing, so it needs no event loop: a browser's may be running."""
    with pytest.raises(StopIteration):
        answering.send(None)


def ask(
    guard: Guard,
    path: str = "/",
    *,
    host: str | None = "127.0.0.1:80",
    method: str = "GET",
    query: str = "",
    cookie: str | None = None,
) -> Answer:
    headers = [(b"host", host.encode("latin-1"))] if host is not None else []
    headers += [(b"cookie", cookie.encode("latin-1"))] if cookie is not None else []
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "headers": headers}
    scope["query_string"] = query.encode("latin-1")
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("no question has a body that is read")

    at_once(guard(scope, receive, send))
    start, *rest = sent
    found = {key.decode(): value.decode() for key, value in start["headers"]}
    return Answer(start["status"], found, b"".join(part["body"] for part in rest))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8050", 200),
        ("127.0.0.1", 200),
        ("localhost:9", 200),  # through a tunnel the port may be another
        ("LOCALHOST", 200),
        ("[::1]:80", 200),
        ("evil.example:8050", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("10.0.0.5", 421),
        ("", 421),
        (None, 421),
    ],
)
def test_names_that_a_server_on_this_machine_answers_to(host: str | None, status: int) -> None:
    assert ask(Guard(hello, "127.0.0.1", 80, None), host=host).status == status


@pytest.mark.parametrize(
    ("host", "status"), [("10.0.0.5:80", 200), ("[fe80::1]", 200), ("server.lan", 200), ("evil.example", 421)]
)
def test_names_that_an_open_server_answers_to(host: str, status: int) -> None:
    """A number cannot be made to point elsewhere, a name can: only the one that was given counts."""
    guard = Guard(hello, "server.lan", 80, TOKEN)
    assert ask(guard, host=host, cookie=f"amity-watch-80={TOKEN}").status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_nothing_but_looking(method: str) -> None:
    answer = ask(Guard(hello, "127.0.0.1", 80, None), method=method)
    assert answer.status == 405 and answer.headers["allow"] == "GET, HEAD" and answer.body != b"hello"


def test_every_answer_carries_the_policy() -> None:
    for answer in (
        ask(Guard(hello, "127.0.0.1", 80, None)),
        ask(Guard(hello, "127.0.0.1", 80, None), host="evil.example"),
    ):
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
    assert "unsafe" not in POLICY and "http" not in POLICY and "*" not in POLICY


@pytest.mark.parametrize(
    ("query", "cookie", "status"),
    [
        ("", None, 403),
        ("token=", None, 403),
        (f"token={TOKEN[:-1]}", None, 403),
        (f"token={TOKEN}x", None, 403),
        ("token=%C3%A4", None, 403),
        (f"other={TOKEN}", None, 403),
        ("", f"amity-watch-81={TOKEN}", 403),
        ("", "amity-watch-80=wrong", 403),
        ("", "amity-watch-80=\xff", 403),
        ("", ";;;=", 403),
        ("", f"a=b; amity-watch-80={TOKEN}", 200),
        (f"token=wrong&token={TOKEN}", None, 200),
    ],
)
def test_the_token_is_needed(query: str, cookie: str | None, status: int) -> None:
    answer = ask(Guard(hello, "0.0.0.0", 80, TOKEN), "/live", query=query, cookie=cookie)
    assert answer.status == status and (answer.body == b"hello") == (status == 200)


def test_the_address_loses_its_token_to_a_cookie() -> None:
    answer = ask(Guard(hello, "0.0.0.0", 80, TOKEN), "/", query=f"token={TOKEN}")
    assert (answer.status, answer.headers["location"], answer.body) == (303, "/", b"")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
    assert ask(Guard(hello, "0.0.0.0", 80, TOKEN), "/", cookie=cookie.partition(";")[0]).status == 200


def test_no_open_server_without_a_token() -> None:
    with pytest.raises(InputError, match="needs a token"):
        Guard(hello, "0.0.0.0", 80, None)


def test_websockets_are_not_answered() -> None:
    async def never(*given: object) -> None:
        raise AssertionError("nothing is sent")

    at_once(Guard(hello, "127.0.0.1", 80, None)({"type": "websocket"}, never, never))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "alone"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("x", False)],
)
def test_addresses_of_this_machine_alone(host: str, alone: bool) -> None:
    assert is_loopback(host) == alone


def test_tokens_differ() -> None:
    assert len({new_token() for _ in range(20)}) == 20 and len(new_token()) >= 32
