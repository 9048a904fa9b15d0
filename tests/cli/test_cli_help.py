"""Help and version: complete, and at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pytest
from cli.commands import Amity, Said, refused, worked

from amity import Run
from amity.cli import app as cli
from amity.cli import data
from amity.cli import help as pages
from amity.config.options import fields_of, names_of


def test_version_and_help(amity: Amity) -> None:
    assert amity("--version") == Said(0, f"{version('amity')}\n", "")
    for words in (["--help"], []):
        said = amity(*words)
        worked(said)
        assert all(
            f"\n  {name} " in said.out for name in ("run", "compare", "report", "methods", "datasets", "settings")
        )


@pytest.mark.parametrize("command", ["run", "compare"])
def test_every_option_has_a_help_line(amity: Amity, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = amity(command, "--help-all")
    worked(said)
    flags = {match[1]: match[2] for match in re.finditer(r"^ +(--[a-z-]+)(.*)$", said.out, re.MULTILINE)}
    wanted = {"--" + name.replace("_", "-") for name in fields_of(Run)} - {"--method"}
    assert wanted | {"--config", "--set", "--out", "--resume", "--force", "--data-dir"} <= flags.keys()
    described = re.sub(r"\n {20,}", "  ", said.out)  # a long metavar sends its help to the next line
    for flag in wanted:
        assert re.search(rf"^ +{flag} +\S+ +\S+.*", described, re.MULTILINE), flag


COMMANDS = [
    [],
    ["data"],
    *([str(command.name)] for command in cli.app.registered_commands),
    *(["data", str(command.name)] for command in data.app.registered_commands),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_a_short_flag_for_help_and_flags_for_logs(amity: Amity, command: list[str]) -> None:
    said = amity(*command, "-h")
    worked(said)
    assert said == amity(*command, "--help")
    assert "\n  -h, --help" in said.out
    everything = amity(*command, "--help-all") if "--help-all" in said.out else said
    assert all(f"\n  {flag}" in everything.out for flag in ("--log-level LEVEL", "--log-file FILE"))


@pytest.mark.parametrize(
    ("command", "groups"), [([], pages.COMMANDS), (["data"], pages.DATA), (["federation"], pages.FEDERATION)]
)
def test_commands_are_grouped_by_what_people_do(
    amity: Amity, command: list[str], groups: Mapping[str, tuple[str, ...]]
) -> None:
    said = amity(*command, "--help").out
    titles = [line[:-1] for line in said.splitlines() if re.fullmatch(r"[A-Z][a-z, ]+:", line)]
    assert titles == ["Options", *groups]  # and none under More: who adds a command says where it belongs
    sections = dict(zip(titles, re.split(r"^[A-Z][a-z, ]+:$", said, flags=re.MULTILINE)[1:], strict=True))
    for title, names in groups.items():
        for name in names:
            assert (f"\n  {name} " in sections[title]) == (f"\n  {name} " in said), name
    listed = [name for names in groups.values() for name in names]
    assert len(set(listed)) == len(listed)
    assert not re.search(r"[a-z,]\.\.\.$", said, re.MULTILINE)  # no sentence is cut off


@pytest.mark.parametrize("command", ["run", "compare", "tune"])
def test_the_usual_options_come_on_a_short_page(amity: Amity, command: str) -> None:
    short, whole = amity(command, "-h").out, amity(command, "--help-all").out
    flags, all_flags = (set(re.findall(r"^ +(?:-h, )?(--[a-z-]+)", text, re.MULTILINE)) for text in (short, whole))
    usual = {flag for group in pages.USUAL.values() for flag in group}
    assert flags == (usual & all_flags) | {"--help", "--help-all"} and len(flags) < 25
    assert len(short.splitlines()) < 65 < len(whole.splitlines())
    titles = re.findall(r"^([A-Z][a-z ]+):$", short, re.MULTILINE)
    assert titles == ["Arguments", *(title for title, group in pages.USUAL.items() if set(group) & all_flags), "Help"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(shell: str, tmp_path: Path) -> None:
    """As a shell asks for it: what was typed so far in the environment, one answer per line."""
    typed = {"amity ": ("compare", "methods"), "amity run --cl": ("--clients", "--class-weights")}
    for words, wanted in typed.items():
        asked = {"_AMITY_COMPLETE": f"complete_{shell}", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        asked |= {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        program = "import sys; sys.argv = ['amity']; from amity.cli.app import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **asked}
        )
        assert done.returncode == 0, done.stderr
        assert all(re.search(rf"(^|\W){word}(\W|$)", done.stdout) for word in wanted), done.stdout


def test_completion_is_installed_for_the_shell_at_hand(tmp_path: Path) -> None:
    home = {**os.environ, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    program = "import sys; sys.argv[0] = 'amity'; from amity.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--install-completion", "bash"], capture_output=True, text=True, env=home
    )
    assert done.returncode == 0, done.stderr
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "_AMITY_COMPLETE=complete_bash" in written


def test_help_names_the_options_that_a_comparison_may_set_for_one_method(amity: Amity) -> None:
    said = " ".join(amity("compare", "--help").out.split())
    sentence = said.partition("--set METHOD.key=value")[2].partition(".")[0]
    found = set(re.findall(r"\w+", sentence.partition("for its")[2])) - {"and"}
    assert found == set(names_of(Run, lambda role: role.per_method))


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["--version"]])
def test_help_does_not_load_torch(words: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "amity", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "amity" in loaded and "typer" in loaded
    assert not loaded & {"torch", "numpy", "sklearn", "scipy", "plotly", "matplotlib", "nvflare", "ray"}


def test_the_console_script_is_installed() -> None:
    script = Path(sys.executable).with_name("amity")
    if not script.exists():
        pytest.skip("amity is not installed beside this Python")
    done = subprocess.run([script, "run", "fedamq"], capture_output=True, text=True)
    refused(Said(done.returncode, done.stdout, done.stderr), "did you mean fedamp")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["report"], "Missing argument 'DIR...' (see `amity report -h`)"),
        (["federation", "nope"], "No such command 'nope' (see `amity federation -h`)"),
        (["rnu"], "Did you mean 'run'? (see `amity -h`)"),
        (["tune", "fedamp", "--bogus"], "(see `amity tune -h`)"),
    ],
)
def test_who_types_no_command_that_there_is_learns_which_page_has_them(
    amity: Amity, words: list[str], told: str
) -> None:
    refused(amity(*words), told)
