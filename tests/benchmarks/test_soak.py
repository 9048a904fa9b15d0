"""The soak: its judges see what must not be, its tally is the page's, and its phases find nothing in a short run."""

from __future__ import annotations

import json
import random
import runpy
from pathlib import Path
from typing import Any

import pytest

from amity.cli.app import command
from benchmarks.soak import damage, options, runs
from benchmarks.soak.__main__ import PHASES, run_phases
from benchmarks.soak.command import Said, call, files_of, within
from benchmarks.soak.mangling import WAYS, mangled
from benchmarks.soak.options import Tried
from benchmarks.soak.tally import Tally, in_words, read_tallies, write_tallies

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def tally() -> Tally:
    return Tally(seed=0, quick=True)


def test_the_page_is_what_was_tried() -> None:
    tried = runpy.run_path(str(DOCS / "tried.py"))
    assert tried["page"]() == (DOCS / "tried.md").read_text(encoding="utf-8"), "run python docs/tried.py"
    assert set(tried["SECTIONS"]) == set(PHASES)


def test_the_page_says_what_has_failed(tally: Tally, tmp_path: Path) -> None:
    tally.tried = 3
    tally.add("refused", 2)
    tally.fail("two\nlines with `quotes`")
    write_tallies(tmp_path / "tried.json", {"runs": tally.phase()})
    write_tallies(tmp_path / "tried.json", {"files": Tally(1, False).phase()})
    found = read_tallies(tmp_path / "tried.json")
    assert found["runs"]["failed"] == 1 and found["files"]["seed"] == 1
    assert in_words("runs", found["runs"])[0].endswith("1 failed")
    section = runpy.run_path(str(DOCS / "tried.py"))["section"]
    assert "- `two lines with 'quotes'`" in list(section(found["runs"]))


@pytest.mark.slow
@pytest.mark.parametrize("name", PHASES)
def test_a_short_run_of_each_phase_finds_nothing(name: str) -> None:
    found = run_phases([name], seed=1, quick=True)[name]
    assert found["failures"] == [] and found["tried"] > 1


def test_a_random_run_is_made_twice_and_compared(tally: Tally, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"method": "fedamp", "data": "synthetic", "setting": "iid", "clients": 3, "rounds": 2}
    asked |= {"epochs": 1, "model": "mlr", "per_silo": 10, "workers": 1, "seed": 3}
    runs.tried(tally, asked, random.Random(0), tmp_path / "run")
    assert tally.failures == [] and tally.counts["came to its end"] == 1
    model = tmp_path / "run" / "second" / "models" / "silo-01.safetensors"
    one, other = (runs.found(tmp_path / "run" / name) for name in ("first", "second"))
    assert one == other and f".: models/{model.name}" in one
    content = bytearray(model.read_bytes())
    content[-1] ^= 1
    model.write_bytes(content)
    assert runs.found(tmp_path / "run" / "second") != one
    runs.tried(tally, {**asked, "method": "fedamp", "robust": "krum"}, random.Random(0), tmp_path / "refused")
    assert tally.failures == [] and tally.counts["combinations refused in one line, with nothing written"] == 1


def test_options_that_are_drawn_are_many_and_repeat_with_the_seed() -> None:
    first, again, other = ([runs.drawn(random.Random(seed), "apple") for _ in range(3)] for seed in (1, 1, 2))
    assert first == again != other


LINE = "amity: run needs rounds to be a whole number, got 'x': try rounds=20 (the default)\n"


@pytest.mark.parametrize(
    ("said", "changed", "must", "trouble"),
    [
        (Said(2, "", LINE), [], True, ""),
        (Said(0, "done", ""), ["made"], False, ""),
        (Said(0, "done", ""), [], True, "taken, and must be refused"),
        (Said(2, "", LINE), ["made/config.toml"], True, "not as they were"),
        (Said(2, "", "Traceback (most recent call last):\n" + LINE), [], True, "not a line for its user"),
        (Said(2, "", ""), [], True, "not a line for its user"),
        (Said(2, "", "amity: got \x1b[31mred\n"), [], True, "control characters"),
        (Said(1, "", "Traceback (most recent call last):"), [], False, "exit code 1"),
        (Said(-1, "", "it took more than 60 s"), [], False, "exit code -1"),
    ],
)
def test_options_are_judged(tally: Tally, said: Said, changed: list[str], must: bool, trouble: str) -> None:
    options.judge(tally, Tried("run", "--rounds", "x", (), must), said, changed)
    assert bool(tally.failures) == bool(trouble) and trouble in "".join(tally.failures)


def test_every_option_of_every_command_is_tried() -> None:
    found = list(options.trials(random.Random(0), 1))
    for path, known in options.commands(command()):
        tried = {one.option for one in found if one.path == path}
        named = {param.opts[0] if param.param_type_name == "option" else param.name for param in known.params}
        assert named - tried <= {"--help", "--help-all", "--version"}, path
        assert path in options.BASES or hasattr(known, "commands"), f"{path} has no words that are right"


def judged(tally: Tally, place: Path, use: damage.Use, writes: str = "") -> str:
    (place / "run").mkdir(parents=True)

    def using(place: Path) -> damage.Use:
        if writes:
            (place / "run" / writes).write_text("half")
        return use

    damage.judge(tally, "called", place, "summary.json", using, damage.Use(Said(0, "usual\n", ""), {"a": 1}))
    return "".join(tally.failures)


@pytest.mark.parametrize(
    ("use", "writes", "trouble"),
    [
        (damage.Use(Said(0, "usual\n", ""), {"a": 1}), "", ""),
        (damage.Use(Said(0, "usual\n", ""), {"a": 2}), "", "another result, without a word"),
        (damage.Use(Said(0, "usual\n", "note: x is damaged"), {"a": 2}), "", ""),
        (damage.Use(Said(2, "", "amity: x is damaged"), {}), "", ""),
        (damage.Use(Said(2, "", "amity: x is damaged"), {}), "new", "refused, and yet the directory is another"),
        (damage.Use(Said(2, "", "KeyError: 3"), {}), "", "not lines for its user"),
        (damage.Use(Said(1, "", "KeyError: 3"), {}), "", "exit code 1"),
    ],
)
def test_uses_of_damaged_runs_are_judged(
    tally: Tally, tmp_path: Path, use: damage.Use, writes: str, trouble: str
) -> None:
    assert trouble in judged(tally, tmp_path, use, writes)
    assert bool(tally.failures) == bool(trouble)


def test_damage_is_of_five_kinds(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1}')
    (tmp_path / "b.json").write_text('{"a": 2}')
    kinds = dict(damage.damages(random.Random(0), tmp_path, "a.json"))
    assert len(kinds) == 5 and all(content != b'{"a": 1}' for content in kinds.values())


def test_bytes_are_mangled_in_every_way_and_again_with_the_seed() -> None:
    content = json.dumps({"a": [1, 2.5, "three"]}).encode()
    for way in WAYS:
        assert any(way(random.Random(seed), content) != content for seed in range(5))
        way(random.Random(0), b"")
    assert [mangled(random.Random(3), content) for _ in range(2)] == [mangled(random.Random(3), content)] * 2


def test_a_command_is_called_as_its_users_call_it(tmp_path: Path) -> None:
    assert call(tmp_path, "--version").code == 0
    said = call(tmp_path, "run", "fedamp", "--rounds", "nan")
    assert said.refused and "rounds" in said.err and files_of(tmp_path) == {}
    with pytest.raises(BaseException, match="more than 0 s"), within(0.05):
        while True:
            pass
