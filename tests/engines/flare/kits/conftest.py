"""A consortium of two silos, made once: tests copy it, for kits can be moved."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from amity.engines.flare.kits import resources
from amity.engines.flare.kits.certificates import Root, Subject, load_key, pem, x509_name
from amity.engines.flare.kits.hub import make_hub
from amity.engines.flare.kits.members import admit
from amity.engines.flare.kits.request import read_request
from amity.engines.flare.kits.site import ask, complete

DESCRIPTION = 'name = "hearts"\norganisation = "University Hospital"\nhost = "localhost"\nport = {port}\n'


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with hub/, north/ and south/; nobody writes to it."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "consortium.toml").write_text(DESCRIPTION.format(port=free_port()))
    with pytest.MonkeyPatch.context() as patch:
        if find_spec("amity.engines.flare.launchers") is None:
            launchers = "nvflare.app_common.job_launcher"
            patch.setattr(resources, "SERVER_LAUNCHER", f"{launchers}.server_process_launcher.ServerProcessJobLauncher")
            patch.setattr(resources, "SILO_LAUNCHER", f"{launchers}.client_process_launcher.ClientProcessJobLauncher")
        make_hub(folder / "consortium.toml", folder / "hub")
        for name in ("north", "south"):
            asked = ask(folder / name, name, f"{name.title()} Hospital")
            (folder / f"{name}.admission").write_text(admit(folder / "hub", read_request(asked.file)))
            complete(folder / name, name, folder / f"{name}.admission")
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """The same, for a test's own use."""
    return Path(shutil.copytree(made, tmp_path / "place"))


@pytest.fixture
def dated() -> Callable[..., str]:
    """Make a certificate of north that begins two days ago, or in `begins_in_days`."""

    def make(root: Root, key: bytes, *, ends_in_days: float, begins_in_days: float = -2) -> str:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .issuer_name(root.certificate.subject)
            .subject_name(x509_name(Subject("north", "North Hospital")))
            .public_key(load_key(key).public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=begins_in_days))
            .not_valid_after(now + timedelta(days=ends_in_days))
        )
        return pem(builder.sign(root.key, hashes.SHA256()))

    return make
