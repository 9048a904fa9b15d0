"""TLS with the server, as a silo does it: each side shows its certificate. Whose certificate answered is told.

The server's certificate is looked at twice: by Python's ssl, which decides, and, where that refuses it, by us, to say
why in words. With TLS 1.3 a server refuses a silo's certificate only after the handshake, so that a first word of it
is waited for: a gRPC server speaks first.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from amity.checks.dates import check_dates
from amity.checks.findings import Account
from amity.checks.network import LIMIT, told

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # how a gRPC client begins
RENEW_SERVER = "tell the coordinator to renew it with `amity federation renew server`, and to restart the server"

_EXEMPT = "if a firewall here opens TLS to inspect it, have this server exempted; else ask the coordinator what answers"


class Dialled(NamedTuple):
    """A server, as it is dialled."""

    host: str  # that its certificate must name
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}, port {self.port}"


class Credentials(NamedTuple):
    """What a kit has to show and to trust."""

    root: Certificate
    certificate: Path
    key: Path


def shake_hands(account: Account, server: Dialled, own: Credentials, who: str = "this silo") -> Certificate | None:
    """Note how TLS goes; return the certificate of a server that both sides' checks let through."""
    context = _context(own)
    try:
        with _connected(server, context) as secure:
            version = secure.version()
            certificate = _parsed(secure.getpeercert(binary_form=True))
            check_dates(account, "server's certificate", certificate, RENEW_SERVER, _whose(certificate))
            return certificate if _is_welcome(account, secure, who, f"{version}") else None
    except ssl.SSLCertVerificationError as error:
        _tell_certificate(account, server, own, error)
    except ssl.SSLError as error:
        _tell_failure(account, server, error, who)
    except TimeoutError:
        account.failed(
            "TLS",
            f"{server} takes connections and says nothing within {LIMIT:g} s",
            "ask the coordinator whether the server hangs, then about firewalls that hold TLS back",
        )
    except OSError as error:
        found, remedy = told(error, str(server))
        account.failed("TLS", found, remedy)
    return None


def _context(own: Credentials, *, verified: bool = True) -> ssl.SSLContext:
    from amity.engines.flare.kits.certificates import pem

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    if not verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.load_verify_locations(cadata=pem(own.root))
    context.load_cert_chain(own.certificate, own.key, password="")  # a key with a password is refused, nobody is asked
    return context


@contextmanager
def _connected(server: Dialled, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    """A connection after its handshake. All of it has a limit too: a server may send a byte now and then."""
    over = threading.Event()
    with socket.create_connection((server.address, server.port), timeout=LIMIT) as plain:
        with context.wrap_socket(plain, server_hostname=server.host, do_handshake_on_connect=False) as secure:

            def end() -> None:
                over.set()
                with suppress(OSError):
                    socket.socket.shutdown(secure, socket.SHUT_RDWR)

            timer = threading.Timer(2 * LIMIT, end)
            timer.start()
            try:
                secure.do_handshake()
                yield secure
            except OSError as error:
                if over.is_set():
                    raise TimeoutError from error
                raise
            finally:
                timer.cancel()


def _is_welcome(account: Account, secure: ssl.SSLSocket, who: str, version: str) -> bool:
    """Note whether the server goes on after it has seen our certificate."""
    try:
        heard = _first_word(secure)
    except TimeoutError:
        account.warned(
            "TLS",
            f"the handshake is done ({version}), and the server says nothing for {LIMIT:g} s",
            "try again; if it stays so, ask the coordinator whether the server hangs, or what else listens there",
        )
        return False
    except OSError as error:
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
            _tell_refusal(account, error, who)
            return False
        heard = b""
    if not heard:
        account.failed(
            "TLS",
            f"the server hangs up when it has seen the certificate of {who}",
            "see its dates above and both clocks; if they are well, the server is of another consortium or was made "
            "anew: ask the coordinator what its log says",
        )
        return False
    account.passed("TLS", f"{version}, the server accepts the certificate of {who}")
    return True


def _first_word(secure: ssl.SSLSocket) -> bytes:
    """Return the first bytes that a server says: by itself, as gRPC's does, or when it is greeted.

    Nothing is sent at first: to a server that is just refusing us it would come too late, the connection would be
    reset, and the reason lost.
    """
    secure.settimeout(0.2 * LIMIT)
    try:
        return secure.recv(9)
    except TimeoutError:
        secure.settimeout(0.8 * LIMIT)
        secure.sendall(HELLO)
        return secure.recv(9)


def _tell_failure(account: Account, server: Dialled, error: ssl.SSLError, who: str) -> None:
    if "ALERT" in (error.reason or ""):
        _tell_refusal(account, error, who)
    elif isinstance(error, ssl.SSLEOFError) or error.reason == "UNEXPECTED_EOF_WHILE_READING":
        found = f"{server} hangs up as soon as TLS begins: usually a firewall that lets no TLS pass"
        account.failed("TLS", found, "ask your network's administrators; the coordinator sees whether anything arrives")
    else:
        found = f"what answers at {server} does not speak TLS ({error.reason or 'no reason given'})"
        account.failed("TLS", found, "ask the coordinator for the right port, and whether a proxy is in between")


def _tell_refusal(account: Account, error: ssl.SSLError, who: str) -> None:
    """Note an alert, by which a server says that it does not want our certificate."""
    reason = (error.reason or "").lower().rpartition("alert_")[2].replace("_", " ")
    remedies = {
        "certificate expired": "see its dates above; if it is valid, the clock of the server or of this machine is off",
        "unknown ca": "the kit is of another consortium, or of one that was made anew: join again with a new admission",
    }
    usual = "ask the coordinator whether the silo is still a member, and what the server's log says"
    account.failed("TLS", f"the server refuses the certificate of {who} ({reason})", remedies.get(reason, usual))


def _tell_certificate(account: Account, server: Dialled, own: Credentials, error: ssl.SSLCertVerificationError) -> None:
    """Note what is wrong with the certificate that the server has shown."""
    account.skipped("TLS", "the server's certificate is not one to trust")
    check = "server's certificate"
    try:
        with _connected(server, _context(own, verified=False)) as secure:
            shown = _parsed(secure.getpeercert(binary_form=True))
    except (OSError, ValueError):
        account.failed(check, f"it is refused ({error.verify_message})", _EXEMPT)
        return
    account.failed(check, *_fault(shown, server, own, error))


def _fault(
    shown: Certificate, server: Dialled, own: Credentials, error: ssl.SSLCertVerificationError
) -> tuple[str, str]:
    from amity.engines.flare.kits.certificates import is_issued_by

    now, whose = datetime.now(UTC), _whose(shown)
    if not is_issued_by(shown, own.root):
        issuer = _name(shown, issuer=True)
        return f"{whose} answers, issued by {issuer!r} and not by this consortium's root", _EXEMPT
    if now > shown.not_valid_after_utc:
        return f"{whose} answers, expired on {shown.not_valid_after_utc:%Y-%m-%d %H:%M} UTC", RENEW_SERVER
    if now < shown.not_valid_before_utc:
        begins = f"{shown.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        return f"{whose} answers, valid only from {begins}", "set this machine's clock, by NTP, or the server's"
    if error.verify_code in (62, 63, 64):  # of OpenSSL: host, mail address, IP address
        hosts = ", ".join(_hosts(shown)) or "no host at all"
        remedy = "ask the coordinator for the right host name, or for a server's certificate that has this one"
        return f"{whose} answers, for {hosts}, and the kit dials {server.host}", remedy
    return f"{whose} answers, refused for {error.verify_message!r}", "ask the coordinator what answers there"


def _parsed(der: bytes | None) -> Certificate:
    from cryptography.x509 import load_der_x509_certificate

    return load_der_x509_certificate(der or b"")


def _whose(certificate: Certificate) -> str:
    from cryptography.x509.oid import NameOID

    found = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    organisation = f" of {found[0].value!s:.64}" if found else ""
    return f"the certificate {_name(certificate)!r}{organisation}"


def _name(certificate: Certificate, *, issuer: bool = False) -> str:
    from cryptography.x509.oid import NameOID

    name = certificate.issuer if issuer else certificate.subject
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME) or name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return f"{found[0].value!s:.64}" if found else "without a name"


def _hosts(certificate: Certificate) -> list[str]:
    from cryptography.x509 import DNSName, ExtensionNotFound, IPAddress, SubjectAlternativeName

    try:
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except (ExtensionNotFound, ValueError):
        return []
    return [*names.get_values_for_type(DNSName), *map(str, names.get_values_for_type(IPAddress))]
