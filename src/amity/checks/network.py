"""The way to the server: its name, and its port. Each way to fail usually has another cause, and is told apart."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Mapping

from amity.checks.findings import Account
from amity.checks.limits import within

LIMIT = 5.0
"""Seconds that one step over the network may take."""

MOST = 4  # addresses of one name that are tried
PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")  # which gRPC looks at, in this order


def find_server(account: Account, host: str, port: int) -> str | None:
    """Look for the server; return the address that it answers at."""
    addresses = _resolved(account, host)
    if not addresses:
        account.skipped("port", "the server's name does not resolve")
        return None
    return _reached(account, addresses, host, port)


def _resolved(account: Account, host: str) -> list[str]:
    try:
        found = resolve(host)
    except TimeoutError:
        remedy = "ask your network's administrators why the name service does not answer"
        account.failed("name", f"the name service gave no answer about {host} within {LIMIT:g} s", remedy)
        return []
    except (OSError, UnicodeError) as error:
        remedy = f"ask your network's administrators for {host}, or the coordinator whether this is still its name"
        account.failed("name", f"{host} is not known here ({_reason(error)})", remedy)
        return []
    if _is_address(host):
        account.passed("name", f"{host} is an address, no name has to be resolved")
    else:
        account.passed("name", f"{host} is {', '.join(found)}")
    return found


def resolve(host: str, seconds: float = LIMIT) -> list[str]:
    """Return the addresses of a name; TimeoutError where nobody says. The system's own limit is far longer."""
    found = within(seconds, lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(str(one[4][0]) for one in found))[:MOST]


def _reached(account: Account, addresses: list[str], host: str, port: int) -> str | None:
    problems: list[OSError] = []
    for address in addresses:
        try:
            with socket.create_connection((address, port), timeout=LIMIT / len(addresses)):
                account.passed("port", f"{address}, port {port} can be reached")
                return address
        except OSError as error:
            problems.append(error)
    found, remedy = told(problems[0], f"{host} ({addresses[0]}), port {port}")
    account.failed("port", found, remedy)
    return None


def told(error: OSError, place: str) -> tuple[str, str]:
    """Return what an attempt to connect has met, and what to do about it."""
    if isinstance(error, TimeoutError):
        found = f"{place} gives no answer within {LIMIT:g} s: usually a firewall drops what is sent, or it is off"
        return found, "ask your network's administrators to let this machine dial out to it; then the coordinator"
    if isinstance(error, ConnectionRefusedError):
        found = f"{place} refuses: the machine is there and nothing listens, the server is down or a firewall refuses"
        return found, "ask the coordinator whether the server runs, and at which port; then about firewalls"
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        found = f"{place} takes the connection and resets it: usually a firewall, or a proxy that knows no such server"
        return found, "ask your network's administrators to let this connection pass as it is"
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL):
        found = f"there is no way from here to {place} ({_reason(error)})"
        return found, "look at this machine's network, or the VPN that it should use"
    return f"{place} cannot be reached ({_reason(error)})", "ask your network's administrators"


def check_proxy(account: Account, host: str, environment: Mapping[str, str] = os.environ) -> None:
    """Note a proxy that the connection would take, for these checks do not."""
    name = next((name for name in PROXIES if environment.get(name)), None)
    if name is None:
        return
    spared = (environment.get("no_grpc_proxy") or environment.get("no_proxy") or "").split(",")
    if any(host == one.strip() or (one.strip() and host.endswith("." + one.strip().lstrip("."))) for one in spared):
        return
    proxy = environment[name].rpartition("@")[2].removeprefix("http://").rstrip("/")  # without a password
    account.warned(
        "proxy",
        f"{name} is set here: the silo's process will go through {proxy}, these checks go directly",
        f"add {host} to no_proxy if the server can be reached directly; else see that the proxy lets CONNECT pass",
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
