"""How a kit's process is started, and what is refused before FLARE begins."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from amity.engines.flare.kits import server_command, silo_command, silo_name, systemd_unit
from amity.engines.flare.kits.dates import check_dates
from amity.engines.flare.kits.files import check_place
from amity.engines.flare.kits.hub import load_root, make_hub
from amity.engines.flare.kits.lock import hold, is_held
from amity.engines.flare.kits.process import check_port, flare_arguments
from amity.engines.flare.kits.storage import KitStorage
from amity.errors import InputError


def refusal(command: tuple[list[str], dict[str, str]]) -> str:
    """What a process says that does not start."""
    done = subprocess.run(command[0], env=command[1], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done
    assert done.stderr.startswith("amity: ") and len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_what_flare_is_called_with(made: Path) -> None:
    module, words = flare_arguments("silo", made / "north")
    assert module == "nvflare.private.fed.app.client.client_train"
    assert words[:2] == ["-m", str(made / "north" / "kit")] and {"uid=north", "secure_train=true"} < set(words)
    module, words = flare_arguments("server", made / "hub")
    assert module == "nvflare.private.fed.app.server.server_train"
    assert words[:2] == ["-m", str(made / "hub" / "server")] and "secure_train=true" in words
    assert silo_name(made / "south") == "south"


def test_the_environment_names_the_folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    argv, environment = server_command(Path("hub"))
    assert argv[-1] == environment["AMITY_HUB"] == str(made / "hub")
    assert environment["PATH"] == os.environ["PATH"]
    argv, environment = silo_command(Path("north"))
    assert argv[-1] == environment["AMITY_SITE"] == str(made / "north")
    assert environment["PYTHONSAFEPATH"] == "1"


def test_a_kit_runs_once(place: Path) -> None:
    kit = place / "north" / "kit"
    assert not is_held(kit)
    handle = hold(kit)
    assert handle is not None and is_held(kit)
    assert "runs already" in refusal(silo_command(place / "north"))
    os.close(handle)
    assert not is_held(kit)


def test_a_key_that_others_can_read(place: Path) -> None:
    (place / "north" / "key.pem").chmod(0o640)
    assert "chmod 600" in refusal(silo_command(place / "north"))


@pytest.mark.parametrize(
    ("begins", "ends", "words"), [(-2, -1, "silo has ended on .* federation renew"), (1, 2, "begins on .* the clock")]
)
def test_certificates_that_are_not_valid_today(
    place: Path, dated: Callable[..., str], begins: int, ends: int, words: str
) -> None:
    check_dates(place / "north")
    check_dates(place / "hub")
    root, key = load_root(place / "hub"), (place / "north" / "key.pem").read_bytes()
    certificate = dated(root, key, begins_in_days=begins, ends_in_days=ends)
    (place / "north" / "kit" / "startup" / "client.crt").write_text(certificate)
    assert re.search(words, refusal(silo_command(place / "north")))


def test_a_port_that_is_taken(place: Path) -> None:
    check_port(place / "hub" / "server")
    port = int(server_port(place))
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        assert f"port {port}" in refusal(server_command(place / "hub"))


def server_port(place: Path) -> str:
    return (place / "consortium.toml").read_text().split("port = ")[1].strip()


def test_the_processes_of_jobs_end_too() -> None:
    program = (
        "import signal, subprocess, sys, time\n"
        "from amity.engines.flare.kits.process import end_with_jobs\n"
        "signal.signal(signal.SIGTERM, end_with_jobs)\n"
        "job = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(job.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        job = psutil.Process(int(parent.stdout.readline()))
        parent.terminate()
        assert parent.wait(timeout=30) == -signal.SIGTERM
    assert not psutil.wait_procs([job], timeout=30)[1]


def test_jobs_are_stored_where_the_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = KitStorage()
    store.create_object("jobs/one", b"content", {"name": "one"})
    assert (tmp_path / "jobs" / "one" / "data").read_bytes() == b"content"
    assert store.list_objects("jobs") == ["jobs/one"]


def test_folders_that_are_not_ready(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no hub"):
        server_command(tmp_path)
    with pytest.raises(InputError, match="no kit yet"):
        silo_command(tmp_path)


def test_paths_that_flare_would_split(made: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without spaces"):
        make_hub(made / "consortium.toml", tmp_path / "two words")
    assert not list(tmp_path.iterdir())
    assert check_place(tmp_path / "a" / ".." / "hub") == tmp_path / "hub"


@pytest.mark.parametrize(("kind", "folder"), [("server", "hub"), ("silo", "north")])
def test_a_unit_for_systemd(made: Path, kind: str, folder: str) -> None:
    unit = systemd_unit("server" if kind == "server" else "silo", made / folder)
    lines = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#"))
    assert shlex.split(lines["ExecStart"])[1:] == ["-m", "amity", "federation", kind, str(made / folder)]
    assert lines["User"] == (made / folder).owner()
    assert lines["UMask"] == "0077" and int(lines["TasksMax"]) > 2000


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize(("kind", "folder"), [("server", "hub"), ("silo", "north")])
def test_systemd_finds_nothing_wrong_with_a_unit(made: Path, kind: str, folder: str, tmp_path: Path) -> None:
    file = tmp_path / f"amity-{kind}.service"
    file.write_text(systemd_unit("server" if kind == "server" else "silo", made / folder))
    done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and file.name not in done.stderr, done.stderr
    file.write_text(file.read_text().replace("KillMode=mixed", "KillMode=mixd"))
    done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, timeout=60)
    assert file.name in done.stderr, "it does look"
