"""Data sets and settings that other packages bring: real ones on the path, as pip would leave them."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from amity.cli import app as cli
from amity.config.plugins import Registry
from amity.contract import InputError
from amity.data import SETTINGS, SOURCES, SettingEntry, deal, load
from amity.data.settings.registry import options_of, read, resolve

DATA = """
    import torch
    from amity.contract import Split
    from amity.data import Source, SourceEntry

    def build(entry, arrays, division):
        x, y = torch.arange(40.0).view(20, 2), torch.arange(20) % 2
        held_out = division.held_out(y, "all")
        return Source(entry.name, Split(x[~held_out], y[~held_out]), Split(x[held_out], y[held_out]), 2)

    RAMP = SourceEntry("ramp", "Ramp", "twenty points on a line", classes=2, shape=(2,), build=build)
"""
SETTING = """
    from dataclasses import dataclass
    import torch
    from amity.config.options import check, option
    from amity.data import Dealt, SettingEntry

    @dataclass(frozen=True)
    class InTurn:
        start: int = option(0, "the first silo to be served", at_least=0)

        def __post_init__(self):
            check(self)

        def deal(self, source, clients, rng):
            def parts(y):
                turn = (torch.arange(len(y)) + self.start) % clients
                return [(turn == silo).nonzero().flatten() for silo in range(clients)]
            return Dealt(parts(source.train.y), parts(source.test.y), [None] * clients)

    IN_TURN = SettingEntry("In turn", "-", "one example after the other", InTurn, clients=4)
"""

Install = Callable[..., None]
Amity = Callable[..., tuple[object, str, str]]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Lay a package on the path: its module, and a dist-info with metadata and entry points."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    def make(package: str, module: str, program: str | None, **groups: str) -> None:
        info = tmp_path / "site" / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"[amity.{group}]\n{entries}\n" for group, entries in groups.items()]
        (info / "entry_points.txt").write_text("\n".join(lines))
        if program is not None:
            (tmp_path / "site" / f"{module}.py").write_text(dedent(program))
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.setitem(sys.modules, module, None)  # so that the module is forgotten after the test
        del sys.modules[module]

    return make


@pytest.fixture
def amity(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Amity:
    """The command: exit code, what it prints and what it complains of."""

    def call(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["amity", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (ended.value.code, *capsys.readouterr())

    return call


@pytest.fixture
def both(install: Install) -> None:
    install("ramp-data", "ramp_data", DATA, datasets="ramp = ramp_data:RAMP")
    install("in-turn", "in_turn", SETTING, settings="in-turn = in_turn:IN_TURN")


def test_a_data_set_and_a_setting_of_other_packages_are_used_like_our_own(both: None) -> None:
    source = load("ramp", seed=3)
    assert (source.name, len(source.train.y), len(source.test.y)) == ("ramp", 16, 4)
    silos = deal(source, "in-turn:start=1", None, 0)
    assert (silos.setting, silos.sizes) == ("in-turn:start=1", (4, 4, 4, 4))
    assert resolve("in-turn", "ramp") == "in-turn" and resolve("auto", "ramp") == "practical"
    with pytest.raises(InputError, match="start to be a whole number >= 0"):
        read("in-turn:start=-1")


def test_tables_hold_our_own_first_then_those_of_packages(both: None) -> None:
    assert list(SOURCES)[-1] == "ramp" and list(SOURCES)[:-1] == list(SOURCES.built_in)
    assert SOURCES["ramp"].package == "ramp-data" and SOURCES["digits"].package == ""
    assert len(SETTINGS) == len(SETTINGS.built_in) + 1 and "in-turn" in SETTINGS
    assert [option["name"] for option in options_of("in-turn")] == ["start"]
    assert SOURCES.problems() == SETTINGS.problems() == []


def test_names_of_packages_are_proposed(both: None) -> None:
    with pytest.raises(InputError, match="unknown data set 'rump'.*ramp"):
        load("rump")
    with pytest.raises(InputError, match="unknown setting 'inturn'.*in-turn"):
        read("inturn")
    with pytest.raises(KeyError):
        SOURCES["rump"]


def test_nothing_is_imported_before_it_is_needed(both: None) -> None:
    load("digits")
    assert "digits" in SOURCES and "rump" not in SOURCES
    read("iid")
    assert not {"ramp_data", "in_turn"} & sys.modules.keys()
    assert "ramp" in SOURCES
    assert "ramp_data" in sys.modules and "in_turn" not in sys.modules


def test_commands_list_them(both: None, amity: Amity) -> None:
    code, out, err = amity("data", "list")
    row = next(line for line in out.splitlines() if line.startswith("ramp "))
    assert (code, err) == (0, "") and row.rstrip().endswith("in ramp-data")
    code, out, err = amity("settings")
    assert (code, err) == (0, "") and "in-turn  one example after the other  (from in-turn)" in out
    assert "start=0" in out
    assert json.loads(amity("settings", "--json")[1])["in-turn"]["clients"] == 4
    assert json.loads(amity("data", "list", "--json")[1])["ramp"]["shape"] == [2]
    assert amity("data", "fetch", "ramp") == (0, "ramp: in ramp-data, nothing to fetch\n", "")
    code, out, _ = amity("data", "verify", "ramp")
    assert (code, out) == (0, "ramp: 16 train, 4 test, 2 classes\n")
    assert amity("settings", "in-turn", "--data", "ramp")[1].splitlines()[5] == "in-turn:start=0 on ramp"


def test_a_fresh_process_finds_them(both: None, tmp_path: Path) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\nimport amity; print(amity.load('ramp').name)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("ramp\n", "")


BROKEN = [
    ("raise RuntimeError('no driver\\nat all')", "RuntimeError: no driver"),
    ("import sys; sys.exit(3)", "SystemExit: 3"),
    ("x = (", "SyntaxError: "),
    ("import a_module_that_is_nowhere", "ModuleNotFoundError: No module named 'a_module_that_is_nowhere'"),
    (None, "ModuleNotFoundError: No module named 'broken'"),
    ("", "AttributeError: "),
    ("THING = 5", "broken:THING must be a {kind}, found int"),
]


@pytest.mark.parametrize(("program", "reason"), BROKEN)
@pytest.mark.parametrize(
    ("group", "what", "table", "kind"),
    [("datasets", "data set", SOURCES, "SourceEntry"), ("settings", "setting", SETTINGS, "SettingEntry")],
)
def test_a_broken_package_is_one_line(
    both: None,
    install: Install,
    amity: Amity,
    program: str | None,
    reason: str,
    group: str,
    what: str,
    table: Registry[Any],
    kind: str,
) -> None:
    install("broken-things", "broken", program, **{group: "thing = broken:THING"})
    assert "thing" not in table and "thing" not in list(table) and len(table) == len(table.built_in) + 1
    (line,) = table.problems()
    assert line.startswith(f"broken-things: the {what} 'thing' cannot be loaded ({reason.format(kind=kind)}")
    assert line.endswith("): update the package, or uninstall it") and "\n" not in line
    with pytest.raises(InputError) as caught:
        load("thing") if group == "datasets" else read("thing")
    assert str(caught.value) == line
    words = ("data", "list") if group == "datasets" else ("settings",)
    for more in ((), ("--json",)):
        code, out, err = amity(*words, *more)
        assert (code, err) == (0, f"note: {line}\n") and "thing" not in out.split()
    code, out, err = amity(*(("data", "verify", "thing") if group == "datasets" else ("settings", "thing")))
    assert (code, out) == (2, "") and line in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (DATA.replace('"ramp"', '"slope"'), "its SourceEntry must have the entry point's name, found 'slope'"),
        (DATA.replace("classes=2", "classes='two'"), "classes and shape must be whole numbers >= 0, found 'two'"),
        (DATA.replace("shape=(2,)", "shape=2"), "classes and shape must be whole numbers >= 0, found 2 and 2"),
        (DATA.replace('"Ramp"', "None"), "title and description must be text"),
        (DATA.replace("build=build", "build=None"), "build must be a function"),
    ],
)
def test_a_data_set_that_cannot_be_listed_is_refused(install: Install, program: str, reason: str) -> None:
    install("ramp-data", "ramp_data", program, datasets="ramp = ramp_data:RAMP")
    assert f"({reason}" in SOURCES.problems()[0] and "ramp" not in SOURCES


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (SETTING.replace("clients=4", "clients=0"), "clients must be a whole number >= 1, found 0"),
        (SETTING.replace("clients=4", "participation=2"), "participation must be > 0 and <= 1, found 2"),
        (SETTING.replace('"-"', "None"), "title, paper and description must be text"),
        (SETTING.replace("InTurn, clients", "dict, clients"), "make must be a dataclass with a function deal"),
        (SETTING.replace("def deal", "def dealt"), "make must be a dataclass with a function deal"),
        (SETTING.replace("start: int = option(0", "start: int = option(-1"), "start to be a whole number >= 0"),
        (SETTING.replace("start: int =", "start: int\n        other: int ="), "TypeError: "),
        (SETTING.replace("start: int", "start: list"), "KeyError: "),
    ],
)
def test_a_setting_that_cannot_be_listed_or_made_is_refused(install: Install, program: str, reason: str) -> None:
    install("in-turn", "in_turn", program, settings="in-turn = in_turn:IN_TURN")
    assert reason in SETTINGS.problems()[0] and "in-turn" not in SETTINGS


def test_a_package_cannot_replace_what_is_ours(install: Install, amity: Amity) -> None:
    own, iid = SOURCES["digits"], SETTINGS["iid"]
    install("thief", "thief", DATA, datasets="digits = thief:RAMP", settings="iid = thief:RAMP\nauto = thief:RAMP")
    assert SOURCES["digits"] is own and SETTINGS["iid"] is iid and list(SOURCES) == list(SOURCES.built_in)
    line = "thief: the data set 'digits' is Amity's own and cannot be replaced: choose another name for it"
    assert SOURCES.problems() == [line]
    assert [problem.split("'")[1] for problem in SETTINGS.problems()] == ["auto", "iid"]
    assert amity("data", "list")[2] == f"note: {line}\n"
    assert "thief" not in sys.modules


def test_two_packages_with_one_name_are_both_left_out(both: None, install: Install) -> None:
    install("another-ramp", "another_ramp", DATA, datasets="ramp = another_ramp:RAMP")
    with pytest.raises(InputError) as caught:
        load("ramp")
    assert str(caught.value).startswith("another-ramp and ramp-data: the data set 'ramp' is brought more than once")
    assert SOURCES.problems() == [str(caught.value)] and "ramp" not in list(SOURCES)


@pytest.mark.parametrize("name", ["folder:x", "Ramp", "my ramp", "-ramp"])
def test_names_must_be_ones_that_can_be_typed(install: Install, name: str) -> None:
    install("ramp-data", "ramp_data", DATA, datasets=f"{name} = ramp_data:RAMP")
    (line,) = SOURCES.problems()
    assert line.startswith("ramp-data: a data set must be named by small letters") and repr(name) in line
    assert "ramp_data" not in sys.modules


def test_metadata_that_cannot_be_parsed_are_one_line(both: None, install: Install) -> None:
    install("garbled", "garbled", None, datasets="no equals sign")
    assert list(SOURCES) == list(SOURCES.built_in)
    assert SOURCES.problems() == [
        "garbled: its entry points cannot be read, so that no package can bring a data set: reinstall it"
    ]


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (DATA.replace("Source(entry.name", "Source('slope'"), "a Source called 'slope'"),
        (DATA.replace("return Source(", "return 5, Source("), "tuple"),
    ],
)
def test_what_a_package_builds_is_looked_at(install: Install, program: str, found: str) -> None:
    install("ramp-data", "ramp_data", program, datasets="ramp = ramp_data:RAMP")
    with pytest.raises(InputError, match=f"ramp-data: build .* must return a Source of that name, found {found}"):
        load("ramp")


FILES = """
    import numpy as np
    import torch
    from amity.contract import Split
    from amity.data import Source, SourceEntry
    from amity.data.sets.entry import Official
    from amity.data.sets.files import File, Layout

    def decode(paths):
        return {"table": np.loadtxt(paths[0]) * FACTOR}

    def build(entry, arrays, division):
        x = arrays["table"].float()
        y = torch.arange(len(x)) % 2
        return Source(entry.name, Split(x, y), Split(x, y), 2)

    FACTOR = 2
    LAYOUT = Layout((File("points.txt", digest="md5:SUM"),), decode)
    POINTS = SourceEntry("points", "Points", "in a file", 2, (2,), build, Official(("points",), (LAYOUT,), 4, 4, "CC0"))
"""


def test_files_of_a_package_are_found_checked_and_decoded_anew(
    install: Install, tmp_path: Path, amity: Amity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache could not tell one version of a package from the next."""
    text = "1 2\n3 4\n5 6\n7 8\n"
    program = FILES.replace("SUM", hashlib.md5(text.encode()).hexdigest())
    install("points-data", "points_data", program, datasets="points = points_data:POINTS")
    folder = tmp_path / "lie" / "points"
    folder.mkdir(parents=True)
    (folder / "points.txt").write_text(text)
    assert load("points", tmp_path / "lie").train.x[0].tolist() == [2, 4]
    monkeypatch.setattr(sys.modules["points_data"], "FACTOR", 3)
    source = load("points", tmp_path / "lie")
    assert source.train.x[0].tolist() == [3, 6] and source.notes == ()
    assert amity("data", "verify", "points", "--data-dir", str(tmp_path / "lie"))[1].endswith("checksum right\n")
    (folder / "points.txt").write_text(text + "9 9\n")
    with pytest.raises(InputError, match="must have the official content"):
        load("points", tmp_path / "lie")


def test_an_entry_can_be_checked_by_its_author() -> None:
    entry = SettingEntry("T", "-", "d", SETTINGS["iid"].make)
    assert entry.from_package("mine", "my-package").package == "my-package"


def test_the_example_of_the_page_works(install: Install, amity: Amity, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    page = page.partition("## Data sets and settings of other packages")[2]
    points, program = (re.search(rf"```{kind}\n(.*?)```", page, re.S)[1] for kind in ("toml", "python"))  # type: ignore[index]
    groups = {
        key.removeprefix("amity."): "\n".join(f"{name} = {place}" for name, place in names.items())
        for key, names in tomllib.loads(points)["project"]["entry-points"].items()
    }
    install("tides-data", "tides", program, **groups)
    assert SOURCES.problems() == SETTINGS.problems() == []
    silos = deal(load("tides"), "in-turn:start=2", None, 0)
    assert (len(silos.silos), sum(silos.sizes)) == (4, 46)
    assert all(silo.test.y.shape[0] for silo in silos.silos)
    run = ("run", "fedavg", "--data", "tides", "--setting", "in-turn", "--rounds", "1", "--out", str(tmp_path / "run"))
    assert amity(*run)[0] == 0
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert (manifest["data"], manifest["setting"]) == ("tides", "in-turn:start=0")
