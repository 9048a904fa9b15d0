"""A silo's folder: what is ready and what is not, each with what to do."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amity.checks import machine, silo
from amity.checks.check import Report, check
from amity.checks.contract import check_silos_run
from amity.checks.findings import Account, Finding
from amity.engines.flare.kits.certificates import load_key, new_root, pem
from amity.engines.flare.kits.hub import load_root
from amity.engines.flare.kits.lock import hold
from amity.errors import InputError

WITHOUT_SERVER = {"port"}  # fails in these tests, where no server runs


class InProcess:
    """Stands for the process that looks at data, without its seconds of loading."""

    def __init__(self, work: str, folder: Path, run: Path | None = None) -> None:
        self._what = folder, run

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def findings(self, until: float, check: str) -> list[Finding]:
        account = Account()
        with account.about(check):
            check_silos_run(account, *self._what)
        return account.findings


@pytest.fixture(autouse=True)
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silo, "Child", InProcess)


def looked_at(place: Path, run: Path | None = None) -> dict[str, list[Finding]]:
    """The findings by check; every one that is not well says what to do."""
    return by_check(check(place / "north", run))


def by_check(report: Report) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for one in report.findings:
        found.setdefault(one.check, []).append(one)
        assert bool(one.remedy) == (one.grade in ("WARN", "FAIL")), one
    return found


def failures(found: dict[str, list[Finding]]) -> set[str]:
    return {check for check, those in found.items() if any(one.grade == "FAIL" for one in those)}


def test_a_silo_that_is_ready_but_for_the_server(place: Path) -> None:
    found = looked_at(place)
    assert failures(found) == WITHOUT_SERVER
    assert {one.grade for check in ("TLS", *silo.SAID_BY_SERVER) for one in found[check]} == {"SKIP"}
    assert "of silo north in the consortium hearts" in found["kit"][0].found
    assert "label 'diagnosis', 2 features: pressure, sugar" in found["columns"][0].found
    assert found["data"][0].found == "40 examples of 2 numbers, 2 classes"
    assert "each after an approval by hand" in found["policy"][0].found
    assert not (place / "north" / "state").exists(), "nothing was made"


def test_nothing_private_is_told(place: Path) -> None:
    told = str(looked_at(place))
    key = (place / "north" / "key.pem").read_text().splitlines()[1]
    assert key not in told and "ill" not in told.split("'") and "PRIVATE" not in told


def test_all_that_is_wrong_with_the_configuration(place: Path) -> None:
    (place / "north" / "silo.toml").write_text('name = "no name"\nstate = "kit/state"\nthreads = 0\ndate = "x"\n')
    found = looked_at(place)
    words = "\n".join(one.found for one in found["silo.toml"])
    assert len(found["silo.toml"]) == 5 and all(one.grade == "FAIL" for one in found["silo.toml"])
    for part in ("name must be", "outside the kit", "threads must be", "'date'", "got neither"):
        assert part in words
    assert found["data"][0].grade == found["state folder"][0].grade == "SKIP"
    assert found["own certificate"][0].grade == "PASS", "the rest is looked at all the same"


def test_what_is_no_configuration(place: Path) -> None:
    for text in ("name = ", "\0", "a = " + "[" * 10_000):
        (place / "north" / "silo.toml").write_text(text)
        assert "silo.toml" in failures(looked_at(place))


def test_a_folder_without_a_kit(place: Path) -> None:
    shutil.rmtree(place / "north" / "kit")
    found = looked_at(place)
    assert "has no kit yet" in found["kit"][0].found and "--admission" in found["kit"][0].remedy
    assert {found[check][0].grade for check in ("name", "port", "TLS", *silo.SAID_BY_SERVER)} == {"SKIP"}
    assert found["data"][0].grade == "PASS"


def test_folders_that_are_neither(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a silo's folder"):
        check(tmp_path)
    with pytest.raises(InputError, match="is no folder"):
        check(tmp_path / "nowhere")
    (tmp_path / "silo.toml").touch()
    with pytest.raises(InputError, match="no file"):
        check(tmp_path, tmp_path / "RUN.toml")


@pytest.mark.skipif(os.name == "nt", reason="modes of files are those of Unix")
def test_permissions(place: Path) -> None:
    (place / "north" / "key.pem").chmod(0o640)
    (place / "north").chmod(0o755)
    found = looked_at(place)
    assert "0640" in found["own key"][0].found and "chmod 600" in found["own key"][0].remedy
    assert found["folders"][0].grade == "WARN" and "chmod 700" in found["folders"][0].remedy


def test_a_key_of_another(place: Path) -> None:
    shutil.copy(place / "hub" / "ca" / "root.key", place / "north" / "key.pem")
    assert "not the key that" in looked_at(place)["own key"][0].found


def redated(place: Path, begins: float, ends: float) -> None:
    """Give north a certificate of these days from now."""
    root, now = load_root(place / "hub"), datetime.now(UTC)
    file = place / "north" / "kit" / "startup" / "client.crt"
    builder = (
        x509.CertificateBuilder()
        .issuer_name(root.certificate.subject)
        .subject_name(x509.load_pem_x509_certificate(file.read_bytes()).subject)
        .public_key(load_key((place / "north" / "key.pem").read_bytes()).public_key())
        .serial_number(7)
        .not_valid_before(now + timedelta(days=begins))
        .not_valid_after(now + timedelta(days=ends))
    )
    file.write_text(pem(builder.sign(root.key, hashes.SHA256())))


@pytest.mark.parametrize(
    ("begins", "ends", "grade", "words"),
    [(-2, -1, "FAIL", "federation renew"), (-2, 10, "WARN", "federation renew"), (1, 9, "FAIL", "clock")],
)
def test_dates_of_our_own_certificate(place: Path, begins: float, ends: float, grade: str, words: str) -> None:
    redated(place, begins, ends)
    found = looked_at(place)["own certificate"][0]
    assert found.grade == grade and words in found.remedy


def test_a_root_of_another_consortium(place: Path) -> None:
    file = place / "north" / "kit" / "startup" / "rootCA.pem"
    file.write_text(pem(new_root("hearts", "University Hospital", 100).certificate))
    found = looked_at(place)
    assert "another root has issued it" in found["own certificate"][1].found


def test_names_that_differ(place: Path) -> None:
    file = place / "north" / "silo.toml"
    file.write_text(file.read_text().replace('"north"', '"south"'))
    assert "silo.toml says south" in looked_at(place)["silo's name"][0].found


def test_rules_of_the_kit_that_were_changed(place: Path) -> None:
    file = place / "north" / "kit" / "local" / "resources.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "allow_log_streaming": True}))
    assert looked_at(place)["kit's rules"][0].grade == "WARN"


def test_a_kit_that_runs(place: Path) -> None:
    handle = hold(place / "north" / "kit")
    assert handle is not None
    try:
        assert "the silo runs here" in looked_at(place)["running"][0].found
    finally:
        os.close(handle)
    assert "does not run here" in looked_at(place)["running"][0].found


@pytest.mark.parametrize(("threads", "words"), [(2, "last bits"), (1024, "cores for them")])
def test_threads_that_change_models_or_help_nobody(
    threads: int, words: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "threads" not in looked_at(place)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)), raising=False)
    file = place / "north" / "silo.toml"
    file.write_text(f"threads = {threads}\n" + file.read_text())
    (found,) = looked_at(place)["threads"]
    assert found.grade == "WARN" and words in found.found


def test_a_worker_that_was_left_behind(place: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    (place / "north" / "state").mkdir(mode=0o700)
    with (place / "north" / "state" / "lock").open("ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        found = looked_at(place)["running"][0]
        assert found.grade == "WARN" and "still holds" in found.found


@pytest.mark.parametrize(
    ("lines", "grade", "words"),
    [
        ('approve = "standing"', "WARN", "without anybody here being asked"),
        ('approve = "standing"\nmost_rounds = 5', "PASS", "at most 5 rounds, without asking"),
        ('approve = "standing"\nmost_epsilon = 4', "PASS", "differential privacy within epsilon 4, without asking"),
        ('approve = "standing"\nleast_mix = 3', "PASS", "the models of 3 others mixed or more, without asking"),
        ('approve = "standing"\nleast_tested = 5', "PASS", "no score of fewer than 5 examples, without asking"),
        (
            'methods = ["fedavg", "fedamp"]\nleast_quorum = 2\nleast_invited = 3\nmost_megabytes = 0.5\n'
            'most_epochs = 2\nmetrics = ["loss"]\nwire = ["float32"]',
            "PASS",
            "only runs with the methods fedavg or fedamp, at most 2 epochs in a turn, 3 silos invited or more, "
            "2 silos or more in each round, at most 0.5 MB leaving in a round, no metrics but loss, "
            "numbers sent as float32, each",
        ),
    ],
)
def test_the_policy_in_words(place: Path, lines: str, grade: str, words: str) -> None:
    file = place / "north" / "silo.toml"
    file.write_text(f"{file.read_text()}[policy]\n{lines}\n")
    found = looked_at(place)["policy"][0]
    assert found.grade == grade and words in found.found


def test_a_state_folder_that_cannot_be_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "north" / "state").write_text("in the way")
    assert "is not a folder" in looked_at(place)["state folder"][0].found
    (place / "north" / "state").unlink()

    @contextlib.contextmanager
    def read_only(**_: object) -> Iterator[None]:
        raise OSError(30, "Read-only file system")
        yield

    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    assert "Read-only file system" in looked_at(place)["state folder"][0].found


def test_little_room(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**8))
    monkeypatch.setattr(machine, "available", lambda: 10**8)
    found = looked_at(place)
    assert found["disk"][0].grade == found["memory"][0].grade == "WARN"
    account = Account()
    machine.check_disk(account, place, 2 * 10**8)
    assert account.findings[0].grade == "FAIL" and "the run needs about 200.0 MB" in account.findings[0].found


def test_a_disk_without_room_for_any_run_fails(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, grade in ((37_000, "FAIL"), (10**8 - 1, "FAIL"), (10**8, "WARN"), (10**10, "PASS")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        account = Account()
        machine.check_disk(account, place)
        (found,) = account.findings
        assert found.grade == grade
        if free == 37_000:
            assert "37.0 kB free" in found.found and "any run needs about 100.0 MB" in found.found
            assert "make room for 100.0 MB" in found.remedy


@pytest.mark.parametrize(("package", "version"), [("nvflare", "missing"), ("nvflare", "2.8.1"), ("torch", "missing")])
def test_what_is_not_installed(place: Path, monkeypatch: pytest.MonkeyPatch, package: str, version: str) -> None:
    known = machine.installed
    monkeypatch.setattr(machine, "installed", lambda name: version if name == package else known(name))
    found = looked_at(place)["versions"][0]
    assert found.grade == "FAIL" and f"{package} {version}" in found.found and "amity[federation]" in found.remedy


def test_without_the_extra(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs its packages is not checked; the rest is."""
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    for module in ("certificates", "admission", "hub", "request", "site"):
        monkeypatch.delitem(sys.modules, f"amity.engines.flare.kits.{module}", raising=False)
    monkeypatch.setattr(machine, "installed", lambda name: "missing" if name == "cryptography" else "2.9.0")
    found = looked_at(place)
    assert failures(found) == {"versions", *WITHOUT_SERVER}
    assert found["own certificate"][0].grade == found["own key"][0].grade == "SKIP"
    assert found["data"][0].grade == "PASS"


def test_a_path_that_flare_would_split(place: Path) -> None:
    place = place.rename(place.with_name("two words"))
    found = looked_at(place)
    assert "without spaces" in found["folder"][0].found and found["name"][0].grade == "PASS"


def test_a_drive_that_is_gone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found until then is told."""
    monkeypatch.setattr(machine, "check_writable", lambda *_: time.sleep(30))
    monkeypatch.setattr("amity.checks.check.GRACE", 1.0)
    report = check(place / "north", patience=1.0)
    assert not report.is_ready and report.findings[-1].check == "time"
    assert {"versions", "kit", "port"} <= {one.check for one in report.findings}


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "noise": lambda content: bytes(range(256)) * 4,
    "another table": lambda content: b'{"client": [], "servers": {}, "format_version": null}',
    "a list": lambda content: b"[1, 2, 3]",
    "a bit": lambda content: content[: len(content) // 2] + b"\xff" + content[len(content) // 2 + 1 :],
}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_gives_a_traceback(consortium: Path, tmp_path: Path, data: st.DataObject) -> None:
    """One file of a silo or of its kit is gone, cut short or something else: that is told, and the rest is checked."""
    place = tmp_path / "damaged"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(consortium / "north", place / "north")
    files = sorted(path.relative_to(place) for path in (place / "north").rglob("*") if path.is_file())
    file = place / data.draw(st.sampled_from(files))
    how = data.draw(st.sampled_from(["gone", "a folder", *DAMAGES]))
    if how in DAMAGES:
        file.write_bytes(DAMAGES[how](file.read_bytes()))
    else:
        file.unlink()
    if how == "a folder":
        file.mkdir()
    found = looked_at(place)
    assert {"versions", "memory", "data", "kit"} <= set(found)
    if file.suffix not in (".request", ".csv") and file.name != "log_config.json" and how != "a bit":
        bad = {check for check, those in found.items() if any(one.grade in ("FAIL", "WARN") for one in those)}
        assert bad - WITHOUT_SERVER, (file, how)


def test_a_report_tells_what_it_counts(place: Path) -> None:
    report = check(place / "north")
    assert (report.kind, report.is_ready) == ("silo", False)
    assert report.count("FAIL") == 1 and report.count("PASS") > 10
