"""Run directories that somebody has written to do harm, with sums that fit: checksums are no signatures.

Whoever is given one gets a line, or a page in which it does nothing.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from record.damaged_runs import Runs

from amity import record
from amity.errors import DamagedFile, InputError
from amity.predicting.card import write_cards
from amity.record import checksums
from amity.record.contents import Line
from amity.report import write_report

HUGE = 10**400
MARKUP = "<script>alert(1)</script>"
RED = "\x1b[31mred\u202e"


def resealed(path: Path) -> None:
    """Put the sums of what is there now into a run."""
    before = json.loads((path / checksums.SUMS).read_bytes())
    config = checksums.config_sum(tomllib.loads((path / "config.toml").read_text()))
    files = checksums.sums_of(path, before["files"])
    sums = checksums.Sums(path, files, (config,), before["rounds"], before["lines"])
    (path / checksums.SUMS).write_bytes(checksums.sums_text(sums))


def changed(path: Path, name: str, change: Callable[[Any], Any]) -> None:
    file = path / name
    file.write_text(json.dumps(change(json.loads(file.read_bytes()))))
    resealed(path)


@pytest.fixture
def forged(runs: Runs, tmp_path: Path) -> Path:
    shutil.copytree(runs["fedamp", "finished"], tmp_path / "run")
    return tmp_path / "run"


def look(path: Path) -> str:
    """Read a run as its users do; its page, and its cards without what is code in them, come back."""
    found = record.read(path)
    write_cards(found)
    page = write_report([found], path.parent / "report.html").read_text()
    cards = "\n".join(file.read_text() for file in path.glob("models/*.md"))
    return page + re.sub(r"(?m)^    .*$|(`+)(?!`).*?(?<!`)\1(?!`)", "", cards)


def test_a_run_that_is_sealed_anew_is_read(forged: Path) -> None:
    changed(forged, "summary.json", lambda content: content)
    assert "</html>" in look(forged)


@pytest.mark.parametrize("key", ["last", "worst", "per_client", "seconds"])
def test_a_summary_with_a_number_without_an_end(key: str, forged: Path) -> None:
    changed(forged, "summary.json", lambda content: {**content, key: [HUGE, HUGE] if key == "per_client" else HUGE})
    with pytest.raises(DamagedFile, match="19 digits"):
        look(forged)


def test_rounds_with_a_number_without_an_end(forged: Path) -> None:
    lines: list[Line] = [json.loads(text) for text in (forged / "rounds.jsonl").read_text().splitlines()]
    for line in lines:
        del line["check"]  # type: ignore[typeddict-item]
    lines[-1]["loss"] = [HUGE, 1.0]
    (forged / "rounds.jsonl").write_bytes(b"".join(checksums.checked_lines(lines, {})[0]))
    with pytest.raises(InputError):
        look(forged)


@pytest.mark.parametrize("value", ["os:system", [1], 3, "a\nb"], ids=repr)
def test_options_of_a_method_that_are_no_table(value: Any, forged: Path) -> None:
    config = tomllib.loads((forged / "config.toml").read_text())
    (forged / "config.toml").write_text(tomli_w.dumps({**config, "set": value}))
    resealed(forged)
    with pytest.raises(DamagedFile, match="not what `amity run` writes"):
        look(forged)


@pytest.mark.parametrize("words", [MARKUP, RED, f"`{MARKUP}", "two\nlines", "../../evil", "os:system"], ids=repr)
@pytest.mark.parametrize("key", ["method", "model", "label", "silo"])
def test_words_that_do_something_elsewhere(key: str, words: str, forged: Path) -> None:
    """Nothing is imported, no other place is written to, no page or terminal does what they say."""
    (name,) = [file.name for file in forged.glob("models/*0.json")]
    changed(forged, f"models/{name}", lambda content: {**content, key: words})
    before = sorted(item.name for item in forged.parent.iterdir())
    try:
        told = look(forged)
    except InputError as error:
        told = str(error)
    assert MARKUP not in told and "\x1b" not in told and "\u202e" not in told
    assert sorted({*before, "report.html"}) == sorted({*(item.name for item in forged.parent.iterdir()), "report.html"})


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil", "..", ""])
def test_silos_whose_names_are_paths(name: str, forged: Path) -> None:
    def renamed(content: dict[str, Any]) -> dict[str, Any]:
        return {**content, "silos": [name, *content["silos"][1:]]}

    changed(forged, "facts.json", renamed)
    before = {file for file in forged.parent.rglob("*")}
    try:
        look(forged)
    except InputError:
        pass
    new = {file for file in forged.parent.rglob("*")} - before - {forged.parent / "report.html"}
    assert all(forged / "models" in file.parents for file in new), new
