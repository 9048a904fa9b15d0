"""Servers of every kind on this machine, and a consortium with one silo that is ready."""

from __future__ import annotations

import csv
import ipaddress
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from amity.checks.findings import Account, Finding
from amity.checks.handshake import Credentials
from amity.engines.flare.kits.hub import make_hub
from amity.engines.flare.kits.members import admit
from amity.engines.flare.kits.request import read_request
from amity.engines.flare.kits.site import ask, complete


class Holder(NamedTuple):
    """A key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        form = serialization.PrivateFormat.PKCS8
        key = self.key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        return key + self.certificate.public_bytes(serialization.Encoding.PEM)


def holder(
    name: str, by: Holder | None = None, *, hosts: tuple[str, ...] = (), begins: float = -1, ends: float = 100
) -> Holder:
    """Make a key and a certificate for it: an authority's, if nobody else signs it. Times are in days from now."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, name),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, f"House of {name}"),
        ]
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=begins))
        .not_valid_after(now + timedelta(days=ends))
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(one) for one in hosts]), critical=False)
    return Holder(key, builder.sign(by.key if by else key, hashes.SHA256()))


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


class Authority(NamedTuple):
    """A consortium's root in a test, and what it makes."""

    root: Holder
    folder: Path

    def server(self, name: str = "server", hosts: tuple[str, ...] = ("localhost",), **when: float) -> Holder:
        return holder(name, self.root, hosts=hosts, **when)

    def credentials(self, own: Holder | None = None) -> Credentials:
        """What a silo of this consortium has."""
        file = self.folder / "own.pem"
        file.write_bytes((own or holder("north", self.root)).pem)
        return Credentials(self.root.certificate, file, file)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(holder("hearts"), tmp_path)


@pytest.fixture
def stranger() -> Holder:
    """The root of somebody else, of the same name."""
    return holder("hearts")


Serve = Callable[[socket.socket], None]


@contextmanager
def listening(serve: Serve) -> Iterator[int]:
    """A port at which somebody answers each connection in this way."""
    with socket.socket() as listener, ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def work() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                stack.callback(connection.close)
                with suppress(OSError):
                    serve(connection)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            thread.join(10)


@pytest.fixture
def listen() -> Iterator[Callable[[Serve], int]]:
    """Answer connections at a free port, which comes back."""
    with ExitStack() as stack:
        yield lambda serve: stack.enter_context(listening(serve))


@pytest.fixture
def tls_server(tmp_path: Path, listen: Callable[[Serve], int]) -> Callable[..., int]:
    """Start a server that wants certificates of `trusted`, and greets those who have one; some wait to be greeted."""

    def start(
        shown: Holder, trusted: Holder, greeting: bytes = b"hello", newest: Any = None, *, waits: bool = False
    ) -> int:
        file = tmp_path / f"server-{shown.certificate.serial_number}.pem"
        file.write_bytes(shown.pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=trusted.certificate.public_bytes(serialization.Encoding.PEM).decode())
        if newest is not None:
            context.maximum_version = newest

        def serve(connection: socket.socket) -> None:
            connection.settimeout(10)
            with context.wrap_socket(connection, server_side=True) as secure:
                if waits:
                    secure.recv(100)
                secure.sendall(greeting)
                while secure.recv(100):
                    pass

        return listen(serve)

    return start


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


@pytest.fixture
def account() -> Account:
    return Account()


Find = Callable[[Account, str], Finding]


@pytest.fixture
def only() -> Find:
    """The one finding of a check that is not that all is well, or the one that is."""

    def find(account: Account, check: str) -> Finding:
        found = [one for one in account.findings if one.check == check]
        assert len(found) == 1, account.findings
        assert found[0].grade in ("PASS", "SKIP") or found[0].remedy, found
        return found[0]

    return find


@pytest.fixture(scope="session")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with hub/ and north/, a silo with data; nobody writes to it."""
    folder = tmp_path_factory.mktemp("consortium")
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port = trial.getsockname()[1]
    text = f'name = "hearts"\norganisation = "University Hospital"\nhost = "localhost"\nport = {port}\n'
    (folder / "consortium.toml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("amity.engines.flare.kits.certificates.BITS", 2048)  # shorter ones are found and read in no time
        make_hub(folder / "consortium.toml", folder / "hub")
        asked = ask(folder / "north", "north", "North Hospital")
    (folder / "north.admission").write_text(admit(folder / "hub", read_request(asked.file)))
    complete(folder / "north", "north", folder / "north.admission")
    with (folder / "north" / "patients.csv").open("w", newline="") as stream:
        rows = [(i % 5 / 2, i % 7 / 3, ("ill", "well")[i % 2]) for i in range(40)]
        csv.writer(stream).writerows([("pressure", "sugar", "diagnosis"), *rows])
    lines = 'name = "north"\nstate = "state"\ndata = "patients.csv"\nlabel = "diagnosis"\n'
    (folder / "north" / "silo.toml").write_text(lines)
    return folder


@pytest.fixture
def place(consortium: Path, tmp_path: Path) -> Path:
    """The same, for a test's own use."""
    return Path(shutil.copytree(consortium, tmp_path / "place"))
