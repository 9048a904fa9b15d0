"""Help and version: complete, and at once."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from cli.commands import Amity, Said, refused, worked

from amity import Run
from amity.cli import app as cli
from amity.cli import data
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
    said = amity(command, "--help")
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
    assert all(f"\n  {flag}" in said.out for flag in ("--log-level LEVEL", "--log-file FILE", "-h, --help"))


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
