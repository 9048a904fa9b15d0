"""--log-level and --log-file: for every command, before its name or after it."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from cli.commands import TINY, Amity, refused, tree, with_tiny, worked

from amity.cli import app as cli
from amity.cli import data, running

LINE = re.compile(r"^\S+T\S+ (?P<level>[A-Z]+) (?P<name>amity[.\w]*): (?P<text>.*)$")
COMMANDS = [
    *([str(command.name)] for command in cli.app.registered_commands),
    *(["data", str(command.name)] for command in data.app.registered_commands),
]


def logged(text: str) -> list[tuple[str, str, str]]:
    """Return the log lines of a text, as level, logger and what they say."""
    return [match.groups() for match in map(LINE.match, text.splitlines()) if match]  # type: ignore[misc]


def test_commands_are_silent_by_default(amity: Amity) -> None:
    said = amity("run", "separate", *TINY, "--out", "a")
    worked(said)
    assert logged(said.err) == []


@pytest.mark.parametrize("first", [True, False])
def test_a_run_logs_what_helps_to_find_a_fault(amity: Amity, first: bool) -> None:
    words = [*with_tiny("run pfedatt --set k=99"), "--out", "a"]
    option = ["--log-level", "debug"]
    said = amity(*option, *words) if first else amity(*words, *option)
    worked(said)
    found = logged(said.err)
    text = "\n".join(line for _, _, line in found)
    for needed in (
        *("amity 0.", "Python 3.", "torch ", "command: amity", "data synthetic, 3 silos, sha256 "),
        *('pfedatt: resolved configuration {"method": "pfedatt"', '"batch": ', '"k": 99', "wrote a/report.html"),
        *("round 1, note: k = 99", "round 2, trained, 3 of 3", "round 2, measured"),
        *("round 1, recorded: mean ", "round 2, recorded: mean ", "pfedatt: running", "pfedatt: finished"),
    ):
        assert needed in text, needed
    assert {name for _, name, _ in found} == {"amity", "amity.cli", "amity.events"}
    others = [line for line in said.err.splitlines() if not LINE.match(line)]
    assert [line.split(" mean")[0] for line in others if " mean " in line] == [f"pfedatt round {n}/2" for n in (1, 2)]


def test_the_results_are_printed_as_without_a_log(amity: Amity) -> None:
    with_log = amity("methods", "--log-level", "debug")
    assert with_log.out == amity("methods").out and logged(with_log.err)


def test_a_log_file_takes_all_and_goes_on(amity: Amity, tmp_path: Path) -> None:
    words = ["run", "separate", *TINY, "--out", "a"]
    worked(said := amity(*words, "--log-file", "a.log"))
    assert logged(said.err) == []
    first = (tmp_path / "a.log").read_text(encoding="utf-8")
    assert all(LINE.match(line) for line in first.splitlines())
    assert {level for level, _, _ in logged(first)} == {"INFO"}
    refused(amity(*words, "--log-file", "a.log"), "--resume")
    both = (tmp_path / "a.log").read_text(encoding="utf-8")
    assert both.startswith(first)
    level, name, text = logged(both)[-1]
    assert (level, name) == ("ERROR", "amity.cli") and text.startswith("InputError: ") and "--resume" in text


def test_the_flags_may_stand_on_either_side_and_the_later_ones_win(amity: Amity, tmp_path: Path) -> None:
    worked(said := amity("--log-level", "debug", "data", "--log-level", "info", "list", "--log-file", "x.log"))
    assert logged(said.err) == []
    assert {level for level, _, _ in logged((tmp_path / "x.log").read_text())} == {"INFO"}
    worked(said := amity("--log-file", "no.log", "--log-level", "info", "methods", "--log-level", "error"))
    assert logged(said.err) == [] and (tmp_path / "no.log").read_text() == ""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("option", "needed"),
    [
        ("--log-level loud", "--log-level needs one of debug, info, warning, error, got 'loud': try --log-level info"),
        ("--log-file nowhere/x.log", "cannot write the log file nowhere/x.log: No such file or directory"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_done(
    amity: Amity, command: list[str], option: str, needed: str, tmp_path: Path
) -> None:
    needs = {"report": "a", "fetch": "digits", "watch": "a", "schema": "folder:a"}
    needs |= {"predict": "a --silo north --data a.csv", "export": "a --silo north --to onnx"}
    arguments = needs.get(command[-1], "").split()
    refused(amity(*command, *arguments, *option.split()), needed)
    refused(amity(*option.split(), *command, *arguments), needed)
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("words", ["--log-level loud", "--log-level", "data --log-level loud", "--log-file ."])
def test_without_a_command_they_are_refused_too(amity: Amity, words: str) -> None:
    refused(amity(*words.split()), "log")


def test_for_debugging_a_refusal_has_its_traceback_in_the_log(amity: Amity, tmp_path: Path) -> None:
    refused(amity("run", "fedamq", "--log-level", "debug", "--log-file", "x.log"), "did you mean fedamp")
    assert "Traceback" in (tmp_path / "x.log").read_text()
    refused(amity("run", "fedamq", "--log-file", "y.log"), "did you mean fedamp")
    assert "Traceback" not in (tmp_path / "y.log").read_text()


def test_a_fault_of_the_program_is_logged_and_not_hidden(
    amity: Amity, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*what: object, **how: object) -> None:
        raise ZeroDivisionError("our fault")

    monkeypatch.setattr(running, "run_all", broken)
    with pytest.raises(ZeroDivisionError):
        amity("run", "separate", *TINY, "--log-file", "x.log")
    text = (tmp_path / "x.log").read_text()
    assert "CRITICAL amity.cli: " in text and "ZeroDivisionError: our fault" in text
    assert [type(one) for one in logging.getLogger("amity").handlers] == [logging.NullHandler]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_run_is_not_lost_with_its_log(amity: Amity, tmp_path: Path) -> None:
    worked(said := amity("run", "separate", *TINY, "--out", "a", "--log-file", "/dev/full"))
    assert said.err.count("the log is not complete") == 1
    assert (tmp_path / "a" / "summary.json").exists()
