"""Commands in README.md and docs/ are real: every flag, name and make target exists."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn
from typer.core import TyperCommand

from amity.cli import advise as cli_advise
from amity.cli import app as cli
from amity.cli import bench as cli_bench
from amity.cli import data as cli_data
from amity.cli import plan, running
from amity.cli import report as cli_report
from amity.cli import reproduce as cli_reproduce
from amity.cli import schema as cli_schema
from amity.cli import settings as cli_settings
from amity.cli import tune as cli_tune
from amity.config.run import Run
from amity.data import SETTINGS, SOURCES
from amity.data.settings.registry import resolve
from amity.methods import METHODS
from amity.models import MODELS
from amity.papers import reproduce
from benchmarks import BENCHMARKS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def blocks(text: str) -> Iterator[str]:
    """Fenced code blocks, and indented ones with a blank line before them."""
    fence = re.compile(r"^( *)```[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
    yield from (match[2] for match in fence.finditer(text))
    yield from re.findall(r"(?:\A|\n\n)((?:(?: {4}|\t)[^\n]*\n?)+)", fence.sub("", text))


def commands(text: str, program: str) -> Iterator[list[str]]:
    """The words behind every call of a program in the code blocks of a Markdown text."""
    for block in blocks(text):
        for line in block.replace("\\\n", " ").splitlines():
            if not re.search(rf"(^|[\s/]){program}(\s|$)", line):
                continue
            words = shlex.split(line, comments=True)
            starts = [0, *(place + 1 for place, word in enumerate(words) if word in ("&&", ";", "|", "||"))]
            for start, end in zip(starts, [*(place - 1 for place in starts[1:]), len(words)], strict=True):
                part = words[start:end]
                while part and (part[0] in ("$", "time") or re.fullmatch(r"\w+=.*", part[0])):
                    part = part[1:]
                if part and part[0].rpartition("/")[2] == program:
                    yield part[1:]


def understood(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of a command line that is read and checked, not carried out."""

    def looked_at(planned: list[tuple[Run, Path]], target: Path, **how: Any) -> None:
        for run, _ in planned:
            assert run.data in SOURCES or run.data.startswith("folder:")
            assert resolve(run.setting, run.data) and run.model in ("auto", *MODELS)

    def known(names: list[str], *how: Any) -> None:
        assert all(name in BENCHMARKS or Path(name).is_file() for name in names)

    def dealt(run: Run, *how: Any) -> None:
        looked_at([(run, Path())], Path())

    config = {"method": "fedavg", "methods": ["fedavg", "separate"]}
    monkeypatch.setattr(running, "run_all", looked_at)
    monkeypatch.setattr(cli_bench, "run_benchmarks", known)
    monkeypatch.setattr(cli_settings, "_look", dealt)
    monkeypatch.setattr(cli_schema, "_show_schema", dealt)
    monkeypatch.setattr(reproduce.Runner, "run_missing", lambda *what: None)
    monkeypatch.setattr(cli_reproduce, "show", lambda *what: None)
    monkeypatch.setattr(cli_advise, "advise_and_show", lambda run, **how: dealt(run))
    monkeypatch.setattr(cli_tune, "search_and_show", lambda run, **how: dealt(run))
    monkeypatch.setattr(cli_report, "report", lambda *what: None)
    monkeypatch.setattr(cli_report, "write_pictures", lambda *what: None)
    monkeypatch.setattr("amity.report.figures.writing.try_folder", lambda folder: None)  # it makes it, here
    monkeypatch.setattr(cli_report, "run_directories", lambda path: [])
    monkeypatch.setattr(cli_data, "_fetch", lambda entries, data_dir: None)
    monkeypatch.setattr(cli_data, "_verify", lambda names, data_dir, labels: None)
    monkeypatch.setattr(plan, "config_of", lambda path, resumed=None: config if path or resumed else {})
    # They make keys, start services or need a run: other tests carry them out.
    if words[:1] in (["federation"], ["predict"], ["export"], ["watch"]):
        monkeypatch.setattr(TyperCommand, "invoke", lambda command, context: None)
    monkeypatch.setattr(sys, "argv", ["amity", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


SAMPLE = """
Text with `amity nonsense` and `make nonsense`, then:

```bash
$ amity run fedamp --rounds 3   # amity in a comment
X=1 .venv/bin/amity compare separate fedavg \\
    --clients 5 && amity methods --json | head
cat amity.txt
```

    make test

And amity in a sentence.
"""


def test_the_reader_of_commands() -> None:
    assert list(commands(SAMPLE, "amity")) == [
        ["run", "fedamp", "--rounds", "3"],
        ["compare", "separate", "fedavg", "--clients", "5"],
        ["methods", "--json"],
    ]
    assert list(commands(SAMPLE, "make")) == [["test"]]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("run fedamp --rounds 3 --set sigma=2", 0),
        ("run --config a/config.toml --out b", 0),
        ("run --out a --resume --rounds 30", 0),
        ("report a b --out c.html", 0),
        ("settings dirichlet:alpha=2 --data mnist --clients 5 --out c.html", 0),
        ("settings dirichlet:alpha=none", 2),
        ("run fedamp --round 3", 2),
        ("run fedamp --rounds none", 2),
        ("run fedamq", 2),
        ("run fedamp --set sigm=2", 2),
        ("walk fedamp", 2),
        ("data verify folder:a mnist", 0),
        ("data fetch mnits", 2),
        ("report", 2),
        ("bench local --repeats 3 --json a.json", 0),
        ("bench --quik", 2),
        ("tune fedamp --search sigma=1:9:log --search lr=0.1,0.2 --trials 5 --timeout 60", 0),
        ("tune fedamp --search sigm=1:9", 2),
        ("advise --data digits --parts 2 --json", 0),
        ("advise --part 2", 2),
        ("run fedamp --log tensorboard --log mlflow", 0),
        ("federation join north --site a", 0),
        ("federation join north", 2),
        ("federation jion north --site a", 2),
    ],
)
def test_the_check_of_commands(line: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert understood(line.split(), monkeypatch) == code


def test_the_check_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        understood(["run", "fedamp", "--data", "digit"], monkeypatch)
    with pytest.raises(AssertionError):
        understood(["bench", "lokal"], monkeypatch)


TEXT = README.read_text(encoding="utf-8")
COMMANDS = [
    words
    for page in (README, *sorted((ROOT / "docs").glob("*.md")))
    for words in commands(page.read_text(encoding="utf-8"), "amity")
]


def test_the_readme_shows_commands() -> None:
    assert any(words[:1] in (["run"], ["compare"]) for words in commands(TEXT, "amity"))


@pytest.mark.parametrize("line", [shlex.join(words) for words in COMMANDS])
def test_commands_are_understood(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert understood(shlex.split(line), monkeypatch) == 0, capsys.readouterr().err


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With some data and a network in place of the reader's own."""
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 4)).astype("float32"), rng.integers(0, 2, 40)
    names: dict[str, Any] = {"x_train": x[:30], "y_train": y[:30], "x_test": x[30:], "y_test": y[30:]}
    names["MyNetwork"] = lambda: nn.Linear(4, 2)
    monkeypatch.chdir(tmp_path)
    exec(code.replace("...", "(x_train, y_train, x_test, y_test)"), names)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["both", "mine"]
    assert {"report.html", "results.json"} <= {path.name for path in (tmp_path / "runs" / "both").iterdir()}
    assert list(names["both"].results) == ["heurfedamp", "separate"]


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert {"demo", "test", "check"} <= targets
    in_blocks = {word for words in commands(TEXT, "make") for word in words if re.fullmatch("[a-z-]+", word)}
    in_text = set(re.findall(r"`make ([a-z-]+)`", TEXT))
    assert in_blocks | in_text <= targets


def test_names_in_tables_exist() -> None:
    cells = re.findall(r"^\|([^|]+)\|", TEXT, re.MULTILINE)
    names = {name for cell in cells for name in re.findall(r"`([a-z-]+)`", cell)}
    commands = {command.name for command in cli.app.registered_commands}
    assert names <= {*METHODS, *SOURCES, *SETTINGS, *MODELS, *commands}


def test_links_to_files_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", TEXT)
    assert [link for link in links if not (ROOT / link).exists()] == []
