"""The pages about methods and settings say what the code says."""

import csv
import re
import runpy
from pathlib import Path

import pytest

from amity.data.settings import SETTINGS
from amity.data.settings import options_of as setting_options
from amity.methods import METHODS, options_of

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "methods.md").read_text(encoding="utf-8")
ERRATA = (DOCS / "errata.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["methods.md", "settings.md"])
def test_the_page_is_what_the_code_says(name: str) -> None:
    generate = runpy.run_path(str(DOCS / "generate.py"))
    assert generate["PAGES"][name]() == (DOCS / name).read_text(encoding="utf-8"), "run python docs/generate.py"


def test_the_page_of_results_is_what_is_recorded() -> None:
    page = runpy.run_path(str(DOCS / "reproduce.py"))["page"]
    assert page() == (DOCS / "reproduce.md").read_text(encoding="utf-8"), "run python docs/reproduce.py"


def test_the_results_in_the_readme_are_recorded() -> None:
    root = DOCS.parent
    readme = (root / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `([\w-]+)` \| ([\d.]+) \| ([\d.]+|–) \|$", readme, re.MULTILINE)
    table = root / "experiments" / "results" / "fedamp" / "cpu" / "table3.csv"
    with table.open(encoding="utf-8", newline="") as file:
        recorded = {line["row"]: line for line in csv.DictReader(file) if line["column"] == "fmnist"}
    assert len(shown) > 3
    for method, ours, paper in shown:
        line = recorded[method]
        assert ours == f"{float(line['bmta']):.2f}", method
        assert paper == (f"{float(line['paper']):.2f}" if line["paper"] else "–"), method


def test_the_p_value_in_the_readme_is_recorded() -> None:
    root = DOCS.parent
    readme = (root / "README.md").read_text(encoding="utf-8")
    (bound,) = re.findall(r"`twin` is ahead of them.*?p < ([\d.]+)\)", readme, re.DOTALL)
    with (root / "experiments/results/fedamp/cpu/wilcoxon-wilcoxon.csv").open(encoding="utf-8", newline="") as file:
        tests = [line for line in csv.DictReader(file) if line["column"] == "fmnist"]
    for other in ("fedavg-ft", "fedamp", "heurfedamp", "ditto"):
        (p,) = (float(line["p_holm"]) for line in tests if {line["row"], line["other"]} == {"twin", other})
        assert p < float(bound), other


def test_what_the_readme_says_of_the_hospitals_is_recorded() -> None:
    root = DOCS.parent
    readme = " ".join((root / "README.md").read_text(encoding="utf-8").split())
    ((methods, seeds),) = re.findall(r"own/heart --size cpu`, (\d+) methods, two models, (\w+) seeds\)", readme)
    with (root / "experiments/results/own/cpu/heart-worth.csv").open(encoding="utf-8", newline="") as file:
        pairs = list(csv.DictReader(file))
    assert len({line["row"] for line in pairs}) == int(methods) and len({line["column"] for line in pairs}) == 2
    assert seeds == "five" and all(int(line["seeds"]) == 5 > int(line["seeds_that_gain"]) for line in pairs)
    assert "no method gains over training alone at any hospital in every seed" in readme


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_and_its_options_are_there(name: str) -> None:
    text = (DOCS / "settings.md").read_text(encoding="utf-8")
    own = text.partition(f"**`{name}`**")[2].partition("**`")[0]
    assert own
    for option in setting_options(name):
        assert f"| `{option['name']}` |" in own


@pytest.mark.parametrize("name", METHODS)
def test_every_method_and_option_is_there(name: str) -> None:
    assert f"**`{name}`**" in PAGE
    for option in options_of(name):
        assert f"| `{option['name']}` |" in PAGE


def test_options_that_the_errata_name_exist() -> None:
    known = {option["name"] for name in METHODS for option in options_of(name)}
    named = set(re.findall(r"`([a-z_0-9]+)(?:`:| = )", ERRATA))
    assert named, "the errata name options"
    assert named <= known, f"not an option of any method: {sorted(named - known)}"
