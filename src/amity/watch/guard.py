"""Who may look: questions that change nothing, from whom they should be, answered so that nothing else gets in.

On this machine alone there is no token unless one is asked for; a page from elsewhere still cannot read answers, and a
name that somebody has made to point here (DNS rebinding) is refused by the Host header. As soon as the server can be
reached from other machines, every question needs the token, by its address or by a cookie that the first one sets.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from amity.errors import InputError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = "127.0.0.1"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page may load its own script and style, ask this server, and nothing else: no request leaves the machine."""

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a server at this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    """Return a token that nobody guesses."""
    return secrets.token_urlsafe(24)


class Guard:
    """Stands before an application: refuses what it should not answer, and adds headers to what it does."""

    def __init__(self, app: App, host: str, port: int, token: str | None) -> None:
        if token is None and not is_loopback(host):
            raise InputError(f"a page that other machines can reach needs a token, got none for {host}: make one")
        self._app = app
        self._host = host
        self._cookie = f"amity-watch-{port}"  # cookies do not know ports: two servers must not take each other's
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # the server itself starting and stopping; websockets there are none
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        if scope["method"] not in ("GET", "HEAD"):
            await _refuse(send, 405, "this page is for looking: GET alone is answered", {"allow": "GET, HEAD"})
        elif not self._knows(headers.get("host", "")):
            await _refuse(send, 421, "this server is not known by that name: use the address that was printed")
        elif self._token is None or self._has_token(headers.get("cookie", ""), self._token):
            await self._app(scope, receive, _with_headers(send, {}))
        elif self._given(scope["query_string"], self._token):
            # Lax: an address that was clicked in a page elsewhere is to work, and nothing can be changed by it.
            cookie = {"set-cookie": f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Lax"}
            if scope["path"] == "/":  # away with the token from the address, which is shown and remembered
                await _refuse(send, 303, "", {"location": "/", **cookie})
            else:
                await self._app(scope, receive, _with_headers(send, cookie))
        else:
            await _refuse(send, 403, "this page needs its token: use the whole address that was printed")

    def _knows(self, host: str) -> bool:
        """Return whether a Host header may name this server. A number cannot be made to point elsewhere, a name can."""
        name = _without_port(host).lower()
        if name in ("localhost", self._host.lower()):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return not is_loopback(self._host) and name == socket.gethostname().lower()
        return address.is_loopback or not is_loopback(self._host)

    def _has_token(self, cookies: str, token: str) -> bool:
        try:
            found = SimpleCookie(cookies).get(self._cookie)
        except CookieError:
            return False
        return found is not None and _same(found.value, token)

    def _given(self, query: bytes, token: str) -> bool:
        return any(_same(value, token) for value in parse_qs(query.decode("latin-1")).get("token", []))


def _same(given: str, token: str) -> bool:
    """Compare in a time that does not tell how much was right."""
    return hmac.compare_digest(given.encode(errors="replace"), token.encode())


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _with_headers(send: Send, more: dict[str, str]) -> Send:
    added = [(key.encode(), value.encode("latin-1")) for key, value in {**HEADERS, **more}.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return sending


async def _refuse(send: Send, status: int, words: str, more: dict[str, str] | None = None) -> None:
    body = f"{words}\n".encode() if words else b""
    headers = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body)), **HEADERS, **(more or {})}
    pairs = [(key.encode(), value.encode("latin-1")) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
