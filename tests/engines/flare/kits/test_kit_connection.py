"""A server and two silos as real processes, over mutual TLS on one port of this machine."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from nvflare.fuel.flare_api.api_spec import AuthorizationError, InternalError
from nvflare.fuel.flare_api.flare_api import new_secure_session

from amity.engines.flare.kits import admin_kit, admin_user, server_command, silo_command
from amity.engines.flare.kits.certificates import Subject, issue, key_pem, new_key, new_root, pem
from amity.engines.flare.kits.hub import load_root
from amity.engines.flare.kits.live import tell_server
from amity.engines.flare.kits.members import remove

pytestmark = pytest.mark.xdist_group("a consortium at work")  # it is started once

PATIENCE = 60.0  # seconds: much more than it takes
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # how a gRPC client begins


class Process(NamedTuple):
    """A process that a test has started, and the file it writes to."""

    process: subprocess.Popen[bytes]
    log: Path


class Running(NamedTuple):
    """A consortium at work."""

    place: Path
    port: int
    session: Any

    def connected(self) -> set[str]:
        """The silos that the server knows to be there."""
        return {client.name for client in self.session.get_system_info().client_info}


def start(command: tuple[list[str], dict[str, str]], log: Path) -> Process:
    with log.open("wb") as out:
        return Process(subprocess.Popen(command[0], env=command[1], stdout=out, stderr=subprocess.STDOUT), log)


def stop(*started: Process) -> None:
    """End processes, and require that nothing of them is left."""
    family = []
    for process, _ in started:
        with suppress(psutil.NoSuchProcess):
            family += [one := psutil.Process(process.pid), *one.children(recursive=True)]
        process.terminate()
    for process, _ in started:
        process.wait(timeout=PATIENCE)
    assert not psutil.wait_procs(family, timeout=PATIENCE)[1]


def wait_for(what: Callable[[], bool], *watched: Process) -> None:
    """Wait until something is so, as long as the processes live."""
    until = time.monotonic() + PATIENCE
    while not what():
        for process, log in watched:
            assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < until, "\n".join(log.read_text()[-2000:] for _, log in watched)
        time.sleep(0.2)


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@pytest.fixture(scope="module")
def running(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = Path(shutil.copytree(made, tmp_path_factory.mktemp("running") / "place"))
    port = int((place / "consortium.toml").read_text().split("port = ")[1])
    with ExitStack() as stack:
        server = start(server_command(place / "hub"), place / "server.log")
        silos = [start(silo_command(place / name), place / f"{name}.log") for name in ("north", "south")]
        stack.callback(stop, server, *silos)
        wait_for(lambda: listens(port), server)
        session = new_secure_session(admin_user(place / "hub"), str(admin_kit(place / "hub")), timeout=PATIENCE)
        stack.callback(session.close)
        found = Running(place, port, session)
        wait_for(lambda: found.connected() == {"north", "south"}, server, *silos)
        yield found


def answer(running: Running, pair: tuple[str, bytes] | None) -> bytes:
    """What the server says to somebody with this certificate and key; it is empty, or an error, if it hangs up."""
    context = ssl.create_default_context(cafile=str(running.place / "hub" / "ca" / "root.pem"))
    context.set_alpn_protocols(["h2"])
    if pair is not None:
        file = running.place / "pair.pem"
        file.write_bytes(pair[0].encode() + pair[1])
        context.load_cert_chain(file)
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            secure.sendall(HTTP2)
            return secure.recv(100)


def refused(running: Running, pair: tuple[str, bytes] | None) -> bool:
    try:
        return answer(running, pair) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def test_a_member_is_answered_and_nobody_without_a_certificate(running: Running) -> None:
    site = running.place / "north"
    own = (site / "kit" / "startup" / "client.crt").read_text(), (site / "key.pem").read_bytes()
    assert answer(running, own) != b""
    assert refused(running, None)


def test_another_root_is_refused(running: Running) -> None:
    """Even one that has the same name."""
    other, key = new_root("hearts", "University Hospital", 10), new_key()
    certificate = issue(other, Subject("north", "North Hospital"), key.public_key(), 5)
    assert refused(running, (pem(certificate), key_pem(key)))


def test_an_expired_certificate_is_refused(running: Running, dated: Callable[..., str]) -> None:
    root, key = load_root(running.place / "hub"), key_pem(new_key())
    assert refused(running, (dated(root, key, ends_in_days=-1), key))
    assert answer(running, (dated(root, key, ends_in_days=1), key)) != b"", "its date was the reason"


def test_plain_text_is_refused(running: Running) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE) as plain, suppress(ConnectionError):
        plain.sendall(HTTP2)
        assert not plain.recv(100).startswith(HTTP2[-9:-6])


def test_a_silo_cannot_take_anothers_name(running: Running) -> None:
    thief = Path(shutil.copytree(running.place / "north", running.place / "thief"))
    file = thief / "kit" / "startup" / "fed_client.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "client": {**content["client"], "fqsn": "south"}}))
    process = start(silo_command(thief), running.place / "thief.log")
    reason = "authenticated as 'north' but claimed endpoint 'south'"
    try:
        wait_for(lambda: reason in (running.place / "server.log").read_text(), process)
    finally:
        stop(process)
    assert "Successfully registered" not in process.log.read_text()
    assert "Successfully registered" in (running.place / "south.log").read_text()
    assert running.connected() == {"north", "south"}


def test_the_coordinator_does_not_reach_into_a_silo(running: Running) -> None:
    with pytest.raises(AuthorizationError):
        running.session.ls_target("north")
    with pytest.raises(AuthorizationError):
        running.session.cat_target("north", file="log.txt")
    with pytest.raises(InternalError, match="failed to shut down"):
        running.session.shutdown("client")
    assert running.connected() == {"north", "south"}


def test_a_silo_is_no_administrator(running: Running) -> None:
    kit = Path(shutil.copytree(admin_kit(running.place / "hub"), running.place / "pretender"))
    shutil.copy(running.place / "north" / "key.pem", kit / "startup" / "client.key")
    shutil.copy(running.place / "north" / "kit" / "startup" / "client.crt", kit / "startup" / "client.crt")
    session = new_secure_session(admin_user(running.place / "hub"), str(kit), timeout=PATIENCE)
    with pytest.raises(AuthorizationError):
        session.list_jobs()
    session.close()


def test_a_removed_silo_is_refused_at_once(running: Running) -> None:
    remove(running.place / "hub", "south")
    assert tell_server(running.place / "hub", "south", removed=True)
    assert "south" not in running.connected()
    kept = json.loads((running.place / "hub" / "server" / "disabled_clients.json").read_text())
    assert kept == {"disabled_clients": ["south"]}
