"""A method that another package brings: listed, built, run on every engine, and put to the laws."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import amity
from amity.cli import app as cli
from amity.errors import InputError
from amity.methods import METHODS, build, options_of
from amity.testing import LAWS, check_method

PLUGIN = Path(__file__).parents[1] / "examples" / "plugin"

Install = Callable[..., None]


def forget(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a module imported anew in this test, and forgotten after it."""
    monkeypatch.setitem(sys.modules, module, None)
    del sys.modules[module]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Lay a package on the path: its module, and a dist-info with metadata and entry points."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def make(package: str, entries: str, program: str = "") -> None:
        info = site / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[amity.methods]\n{entries}\n")
        module = package.replace("-", "_")
        if program:
            (site / f"{module}.py").write_text(program)
        forget(module, monkeypatch)

    return make


@pytest.fixture
def halfway(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example package, as pip would leave it."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["amity.methods"]
    monkeypatch.syspath_prepend(str(PLUGIN / "src"))
    install(project["name"], "\n".join(f"{name} = {where}" for name, where in points.items()))


def said(words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["amity", *words.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    found = capsys.readouterr()
    return int(ended.value.code or 0), found.out, found.err


def test_the_example_is_listed_and_run(
    halfway: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = said("methods", monkeypatch, capsys)
    assert code == 0 and "halfway" in out and "of the package amity-halfway" in " ".join(out.split())
    row = json.loads(said("methods --json", monkeypatch, capsys)[1])["halfway"]
    assert row["title"] == "Each silo starts halfway between its own model and the mean of all"
    assert row["package"] == "amity-halfway" and [option["name"] for option in row["options"]] == ["share"]
    code, out, err = said(
        "run halfway --clients 3 --rounds 1 --epochs 1 --set share=0.25 --out here", monkeypatch, capsys
    )
    assert code == 0, err
    assert json.loads((tmp_path / "here" / "facts.json").read_text())


def test_the_example_is_built_and_run_by_name_on_every_local_engine(halfway: None) -> None:
    assert [option["default"] for option in options_of("halfway")] == [0.5]
    method = build("halfway", {"share": 0.25})
    assert getattr(method, "share") == 0.25  # noqa: B009
    with pytest.raises(InputError, match="share to be a number >= 0 and <= 1"):
        build("halfway", {"share": 2.0})
    asked = amity.Run("halfway", clients=3, rounds=2, epochs=1, model="mlp", engine="loop")
    loop = amity.run(asked)
    for engine in ("auto", "stacked", "memory"):
        other = amity.run(dataclasses.replace(asked, engine=engine))
        assert other.best == pytest.approx(loop.best, abs=2)


def test_the_example_keeps_the_laws(halfway: None) -> None:
    report = check_method("halfway")
    assert report.passed == tuple(LAWS) and "keeps" in str(report)


BROKEN = {
    "no module": ("lost = broken_pack:Lost", "x = 1", "AttributeError"),
    "raises": ("lost = broken_pack:Lost", "raise RuntimeError('two\\nlines')", "RuntimeError: two"),
    "exits": ("lost = broken_pack:Lost", "raise SystemExit(3)", "SystemExit: 3"),
    "a function": ("lost = broken_pack:Lost", "def Lost(): ...", "must be a Entry, found function"),
    "no docstring": (
        "lost = broken_pack:Lost",
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Lost: ...",
        "Lost must have a docstring",
    ),
    "not a method": (
        "lost = broken_pack:Lost",
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Lost:\n    'A thing.'",
        "Lost lacks init_server, init_client",
    ),
    "a name of ours": ("fedavg = broken_pack:Lost", "x = 1", "is Amity's own and cannot be replaced"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_package_is_one_line_and_harms_nobody(
    what: str, halfway: None, install: Install, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entries, program, reason = BROKEN[what]
    install("broken-pack", entries, program)
    (line,) = METHODS.problems()
    assert line.startswith("broken-pack: the method ") and reason in line and "\n" not in line
    code, out, err = said("methods", monkeypatch, capsys)
    assert code == 0 and "halfway" in out and "fedavg" in out
    assert " ".join(err.split()).count("broken-pack") == 1
    assert type(build("fedavg")).__module__ == "amity.methods.fedavg" and build("halfway") is not None
    if what != "a name of ours":
        with pytest.raises(InputError, match="^broken-pack: the method 'lost' cannot be loaded"):
            build("lost")


def test_a_method_that_breaks_a_law_is_told_which(install: Install) -> None:
    program = (PLUGIN / "src" / "amity_halfway" / "__init__.py").read_text()
    wrong = program.replace('torch.lerp(client["params"], down["params"]', 'client["params"].lerp_(down["params"]')
    assert wrong != program
    install("wrong-pack", "wrong = wrong_pack:Halfway", wrong)
    with pytest.raises(
        AssertionError, match="^wrong breaks the law 'pure' over memory .*local: equal calls, different results"
    ):
        check_method("wrong")
    with pytest.raises(InputError, match="^unknown law 'purity': known: pure"):
        check_method("wrong", laws=["purity"])


def test_no_test_framework_is_needed() -> None:
    program = "import sys; sys.modules['pytest'] = sys.modules['hypothesis'] = None; import amity.testing"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
