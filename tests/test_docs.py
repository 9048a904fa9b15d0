"""The pages about methods and settings say what the code says."""

import csv
import re
import runpy
from pathlib import Path

import pytest

from amity.data.settings.registry import SETTINGS
from amity.data.settings.registry import options_of as setting_options
from amity.methods import METHODS, options_of

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path for path in (*DOCS.glob("*.md"), *DOCS.parent.glob("*.md")) if path.name != "CHANGELOG.md")
FOLDERS = ("src/amity", "src", "tests", "docs", "benchmarks", "examples", "experiments")
PAGE = (DOCS / "methods.md").read_text(encoding="utf-8")
ERRATA = (DOCS / "errata.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["methods.md", "settings.md"])
def test_the_page_is_what_the_code_says(name: str) -> None:
    generate = runpy.run_path(str(DOCS / "generate.py"))
    assert generate["PAGES"][name]() == (DOCS / name).read_text(encoding="utf-8"), "run python docs/generate.py"


def test_the_page_of_results_is_what_is_recorded() -> None:
    page = runpy.run_path(str(DOCS / "reproduce.py"))["page"]
    assert page() == (DOCS / "reproduce.md").read_text(encoding="utf-8"), "run python docs/reproduce.py"


def test_what_is_said_of_each_paper_is_what_its_claims_count() -> None:
    """The ten lines that the page opens with count comparisons; each count stands among the claims of that paper."""
    text = (DOCS / "reproduce.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\d+\. .*(?:\n +.*)*", text.partition("\n    amity")[0], re.MULTILINE)
    glance = text.partition("## The claims at a glance")[2].partition("\n## ")[0]
    papers, paper = {"FedAMP": "fedamp", "PFedAtt": "pfedatt", "FedACS": "fedacs", "APPLE": "apple"}, ""
    assert len(lines) == 10
    for line in lines:
        opened = re.match(r"\d+\. \*\*(\w+)", line)
        paper = papers[opened[1]] if opened else paper
        claims = "".join(re.findall(rf"^\*\*{paper}/.*\n\n(?:- .*\n)+", glance, re.MULTILINE))
        counts = re.findall(r"\d+ of \d+", line)
        assert all(f"({count} comparison" in claims for count in counts), (paper, counts)


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


@pytest.mark.parametrize("page", ["README.md", "docs/methods.md", "docs/comparison.md", "docs/results/twin.md"])
def test_twin_is_not_recommended_and_the_numbers_say_why(page: str) -> None:
    text = " ".join((DOCS.parent / page).read_text(encoding="utf-8").split())
    assert "not recommended" in text and "harms" in text
    assert "83.6 % where training alone has 87.7" in text
    assert "not recommended, harms on natural silos" in METHODS["twin"].title


@pytest.mark.parametrize(("page", "tables"), [("README.md", 1), ("docs/comparison.md", 2)])
def test_no_table_leads_with_our_own_method(page: str, tables: int) -> None:
    lines = (DOCS.parent / page).read_text(encoding="utf-8").splitlines()
    places = [place for place, line in enumerate(lines) if re.match(r"\| `?twin\b", line)]
    assert len(places) == tables
    for place in places:
        assert "not recommended" in lines[place]
        assert not lines[place + 1].startswith("|")  # the last of the methods


def test_the_page_of_all_methods_says_what_is_delivered() -> None:
    heads = [line for line in (DOCS / "comparison.md").read_text(encoding="utf-8").splitlines() if "BMTA % |" in line]
    assert len(heads) == 2 and all(head.startswith("| method | delivered % | worst silo % |") for head in heads)


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


def files_named(text: str) -> set[str]:
    """Python files that a page names with their folder, and those of the package's top."""
    return set(re.findall(r"`((?:[\w.]+/)+\w+\.py|(?:api|contract|prepare|resolve|running|run|cli)\.py)`", text))


def is_there(name: str) -> bool:
    root = DOCS.parent
    return (root / name).is_file() or any((root / folder / name).is_file() for folder in FOLDERS)


def test_the_reader_of_file_names() -> None:
    found = files_named("In `learn/task.py`, `run.py` and `src/amity/no/such.py`, not in `csv.py` or x/y.py")
    assert found == {"learn/task.py", "run.py", "src/amity/no/such.py"}
    assert {name for name in found if is_there(name)} == {"learn/task.py"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = files_named(page.read_text(encoding="utf-8"))
    assert [name for name in sorted(named) if not is_there(name)] == []


def test_the_page_of_the_architecture_answers_what_a_stranger_asks() -> None:
    """From a question to the file: the file is there, and what it is said to hold is in it."""
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| (w[^|]+?) \| ([^|]+) \|$", page, re.MULTILINE))
    holds = {
        "where an upload is checked": ("federation/admission.py", "class Admission"),
        "where a silo's state is saved": ("federation/stored_silo.py", "class StoredSilo"),
        "where attention is computed": ("methods/_attention.py", "def "),
        "where a csv becomes tensors": ("data/formats/csv.py", "def "),
        "what a new engine must implement": ("federation/carrier.py", "class Carrier"),
        "what a new method must implement": ("contract.py", "class Method"),
        "what silos agree to before a run": ("federation/run_contract.py", "class RunContract"),
        "where a silo says yes or no": ("site/consent.py", "def decision"),
        "where it is written down what crossed": ("federation/audit.py", "class Audit"),
        "who keeps a run going when something dies": ("hub/supervise.py", "class Supervisor"),
        "where `status` comes from": ("hub/board.py", "class Board"),
    }
    for question, (file, words) in holds.items():
        assert f"`src/amity/{file}`" in table[question]
        assert words in (DOCS.parent / "src" / "amity" / file).read_text(encoding="utf-8")


def test_rooms_of_the_architecture_are_the_folders() -> None:
    """Every folder and module of the package's top is drawn, and nothing that is not there."""
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    drawing = page.partition("    src/amity/\n")[2].partition("\n\n")[0]
    drawn = {name for line in drawing.splitlines() for name in re.findall(r"\w+(?:\.py|/)", line[6:].split("  ")[0])}
    package = DOCS.parent / "src" / "amity"
    there = {f"{path.name}/" if path.is_dir() else path.name for path in package.iterdir()}
    quiet = {"__init__.py", "__main__.py", "__pycache__/", "py.typed", "free_memory.py", "statistics.py"}
    assert drawn == there - quiet
