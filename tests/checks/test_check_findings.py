"""An account of checks: one that fails keeps no other from running, and what it says is one printable line."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from amity.checks.dates import check_span
from amity.checks.findings import Account, Finding, halves
from amity.checks.limits import within
from amity.checks.machine import check_limits, existing, minor, most_tasks
from amity.errors import InputError


@pytest.mark.parametrize(
    ("error", "grade", "words"),
    [
        (InputError("a rule, this was got: do that"), "FAIL", ("a rule, this was got", "do that")),
        (InputError("a bare line"), "FAIL", ("a bare line", "mend it")),
        (ModuleNotFoundError("no", name="nvflare"), "SKIP", ("nvflare is missing", "")),
        (PermissionError(13, "Permission denied", "key.pem"), "FAIL", ("key.pem cannot be read", "may read it")),
        (KeyError("secret"), "FAIL", ("could not be checked (KeyError)", "--log-level")),
    ],
)
def test_what_goes_wrong_is_a_finding(error: Exception, grade: str, words: tuple[str, str]) -> None:
    account = Account()
    with account.about("trial"):
        raise error
    account.passed("next", "is looked at all the same")
    found, after = account.findings
    assert (found.check, found.grade, after.grade) == ("trial", grade, "PASS")
    assert words[0] in found.found and words[1] in found.remedy and "secret" not in found.found


def test_one_printable_line() -> None:
    account = Account()
    account.failed("trial", "two\nlines \x1b[31mred", "x" * 5000)
    assert account.findings == [Finding("trial", "FAIL", "two lines [31mred", "x" * 600)]


@pytest.mark.parametrize(
    ("begins", "ends", "grade", "words"),
    [
        (-1, 31, "PASS", "valid until"),
        (-1, 29, "WARN", "in 28 days"),
        (-1, 0.5, "WARN", "within a day"),
        (-2, -1, "FAIL", "expired on"),
        (1, 99, "FAIL", "valid only from"),
    ],
)
def test_dates(begins: float, ends: float, grade: str, words: str) -> None:
    account, now = Account(), datetime.now(UTC)
    check_span(account, "own", now + timedelta(days=begins), now + timedelta(days=ends), "renew it", "north's")
    (found,) = account.findings
    assert found.grade == grade and words in found.found and found.found.startswith("north's, ")
    assert found.remedy == {"PASS": "", "WARN": "renew it"}.get(grade, "renew it" if begins < 0 else found.remedy)
    assert begins < 0 or "clock" in found.remedy


def test_versions_are_compared_by_their_first_two_numbers() -> None:
    assert minor("0.1.0") == minor("0.1.7.dev2") != minor("0.2.0")
    assert minor("2.9") == (2, 9) and minor("unknown") == () and minor("3.x") == (3,)


def test_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert existing(tmp_path / "a" / "b") == tmp_path and existing(tmp_path) == tmp_path


def test_work_that_takes_too_long() -> None:
    assert within(10, lambda: 3) == 3
    with pytest.raises(KeyError):
        within(10, lambda: {}[1])  # type: ignore[index]
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        within(0.05, lambda: time.sleep(20))
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    ("group", "files", "most"),
    [
        ("0::/unit\n", {"sys/fs/cgroup/unit/pids.max": "100\n"}, 100),
        ("0::/a/b\n", {"sys/fs/cgroup/a/pids.max": "70", "sys/fs/cgroup/a/b/pids.max": "max"}, 70),
        ("5:pids:/box\n3:memory:/box\n", {"sys/fs/cgroup/pids/box/pids.max": "50"}, 50),
    ],
)
def test_limits_of_containers(tmp_path: Path, group: str, files: dict[str, str], most: int) -> None:
    for name, text in {"proc/self/cgroup": group, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert most_tasks(tmp_path) == most
    account = Account()
    check_limits(account, tmp_path)
    assert account.findings[0].grade == "WARN" and f"{most} threads" in account.findings[0].found


@pytest.mark.parametrize(
    ("error", "found", "remedy"),
    [
        ("a must be 1, got 2: change it", "a must be 1, got 2", "change it"),
        ("[policy]: a is none: leave it out", "[policy]: a is none", "leave it out"),
        ("unknown key 'dat': take one (known: data, state)", "unknown key 'dat'", "take one (known: data, state)"),
        ("it is damaged", "it is damaged", "mend it"),
        ("it is damaged (no: not that): mend (or: do not)", "it is damaged (no: not that)", "mend (or: do not)"),
    ],
)
def test_what_has_happened_and_what_to_do(error: str, found: str, remedy: str) -> None:
    assert halves(error) == (found, remedy)
