"""`amity methods`, `amity datasets` and `amity settings`: what there is, and what a setting deals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli.commands import Amity, refused, tree, worked
from report.reported_runs import Page

from amity import deal, load
from amity.data import SETTINGS, SOURCES
from amity.data.settings.registry import options_of as setting_options
from amity.methods import METHODS, options_of


def test_methods_are_listed_with_a_line_each(amity: Amity) -> None:
    said = amity("methods")
    worked(said)
    *lines, last = said.out.splitlines()
    assert [line.split()[0] for line in lines] == list(METHODS)
    assert all(entry.title in line for line, entry in zip(lines, METHODS.values(), strict=True))
    assert "amity methods NAME" in last


def test_a_method_is_shown_in_full(amity: Amity) -> None:
    said = amity("methods", "fedamp", "separate")
    worked(said)
    words = " ".join(said.out.split())
    assert "Huang et al., AAAI 2021" in words and "every silo trains alone" in words and "apple" not in words
    assert "down d, up d" in words and "down 0, up 0" in words
    assert list(json.loads(amity("methods", "fedamp", "--json").out)) == ["fedamp"]
    refused(amity("methods", "fedamq"), "did you mean fedamp")


def test_every_option_of_a_method_is_told(amity: Amity) -> None:
    said = amity("methods", *METHODS)
    worked(said)
    found = json.loads(amity("methods", "--json").out)
    assert list(found) == list(METHODS)
    for name, row in found.items():
        assert (row["title"], row["paper"]) == (METHODS[name].title, METHODS[name].paper)
        assert [option["name"] for option in row["options"]] == [option["name"] for option in options_of(name)]
        assert all(option["help"] and option["rule"] for option in row["options"])
        assert all(f"{option['name']}={option['default']}" in said.out for option in row["options"])


@pytest.mark.parametrize(("command", "table"), [("datasets", SOURCES), ("settings", SETTINGS)])
def test_data_sets_and_settings_are_listed(amity: Amity, command: str, table: dict[str, Any]) -> None:
    said = amity(command)
    worked(said)
    words = [line.split()[0] for line in said.out.splitlines() if line.strip()]
    assert set(table) <= set(words)
    found = json.loads(amity(command, "--json").out)
    assert list(found) == list(table)
    assert all(row["title"] and row["description"] for row in found.values())


def test_settings_are_listed_with_their_options(amity: Amity) -> None:
    said = amity("settings").out
    found = json.loads(amity("settings", "--json").out)
    for name, row in found.items():
        assert [option["name"] for option in row["options"]] == [option["name"] for option in setting_options(name)]
        assert all(f"{option['name']}={option['default']}" in said for option in row["options"])
    assert (found["many"]["clients"], found["many"]["participation"]) == (500, 0.1)


def test_a_setting_can_be_looked_at(amity: Amity, tmp_path: Path) -> None:
    words = "settings dirichlet:alpha=0.1 --data synthetic --clients 6 --seed 3"
    said = amity(*words.split(), "--out", "here/picture.html")
    worked(said)
    expected = deal(load("synthetic"), "dirichlet:alpha=0.1", 6, seed=3).manifest()
    assert json.loads(amity(*words.split(), "--json").out) == expected
    rows = {line.split()[0]: line.split()[1:] for line in said.out.splitlines()}
    for silo in expected["silos"]:
        numbers = [sum(silo["train"]), sum(silo["test"]), *silo["train"]]
        assert rows[silo["name"]] == ["–", *(str(number) if number else "·" for number in numbers)]
    assert rows["sha256"] == [expected["sha256"]]
    assert "dirichlet:alpha=0.1,axis=class,min_size=10,test_from=shares on synthetic" in said.out
    shown = Page(tmp_path / "here" / "picture.html").view["silos"]
    assert [(silo["name"], silo["held"]) for silo in shown] == [(s["name"], s["train"]) for s in expected["silos"]]
    assert list(tree(tmp_path)) == ["here", "here/picture.html"]
    refused(amity("settings", "--out", "x.html"), "SETTING")
    refused(amity("settings", "dirichlet:alpha=0"), "alpha")
    refused(amity("settings", "iid", "--clients", "none"), "clients")
