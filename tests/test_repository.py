"""The files that a public host and the tools around the code read: they parse, and say what the code says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def parsed(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_workflow_runs_the_gate_and_nothing_else() -> None:
    workflow = parsed(".github/workflows/ci.yml")
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111, "the gate can be executed"
    assert workflow["permissions"] == {"contents": "read"}
    # YAML 1.1 reads the key `on` as True.
    assert set(workflow[True]) == {"push", "pull_request"}


def test_the_workflow_has_the_oldest_python_that_is_promised() -> None:
    (job,) = parsed(".github/workflows/ci.yml")["jobs"].values()
    versions = job["strategy"]["matrix"]["python"]
    assert all(isinstance(version, str) for version in versions), "3.10 without quotes would be 3.1"
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}" and versions == ["3.11", "3.12"]


def test_hooks_call_the_tools_of_the_environment() -> None:
    (repository,) = parsed(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for hook in repository["hooks"]:
        tool = hook["entry"].split()[0]
        assert hook["language"] == "system" and tool.startswith(".venv/bin/")
        assert f"$(BIN)/{Path(tool).name}" in makefile, "make check runs it too"


def test_the_citation_is_of_this_version() -> None:
    citation = parsed("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == PROJECT["project"]["version"]
    assert citation["license"] == PROJECT["project"]["license"]
    assert citation["keywords"] == PROJECT["project"]["keywords"]


@pytest.mark.parametrize("place", range(len(parsed("CITATION.cff")["references"])))
def test_papers_are_cited_as_their_methods_cite_them(place: int) -> None:
    paper = parsed("CITATION.cff")["references"][place]
    for method in re.split(r", | and ", paper["notes"]):
        text = (ROOT / "src" / "amity" / "methods" / f"{method.lower()}.py").read_text(encoding="utf-8")
        assert f"{paper['title']}" in " ".join(text.split())
        assert paper["authors"][0]["family-names"] in text.partition(paper["title"])[0]


@pytest.mark.parametrize("form", [form for form in FORMS if form.name != "config.yml"], ids=lambda form: form.stem)
def test_forms_ask_questions(form: Path) -> None:
    asked = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert asked["name"] and asked["description"]
    questions = [part for part in asked["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in questions}) == len(questions) > 0
    assert all(part["attributes"]["label"] for part in questions)
    assert any(part.get("validations", {}).get("required") for part in questions)


def test_versions_that_get_fixes_are_this_one() -> None:
    series = PROJECT["project"]["version"].rpartition(".")[0]
    assert f"| {series}.x and `main` | yes |" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_reports_go_to_the_host_and_to_no_invented_address(name: str) -> None:
    text = " ".join((ROOT / name).read_text(encoding="utf-8").split())
    assert "*Report a vulnerability*" in text and "@" not in text


def test_tools_of_the_gate_have_exact_versions() -> None:
    pinned = {
        re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower()
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *(need for extra in extras.values() for need in extra)]
    named = {re.split(r"[\[<>=!~ ]", need)[0].lower() for need in wanted} - {"amity"}
    assert named <= pinned


def test_the_suite_has_a_floor() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.partition("\ntest:")[2].partition("\n\n")[0]
    (floor,) = re.findall(r"^FLOOR := (\d+)$", makefile, re.MULTILINE)
    assert "--fail-under $(FLOOR)" in recipe and 60 <= int(floor) <= 100
    assert "-m pytest -n 2" in recipe


def test_no_test_module_imports_another() -> None:
    """What they share lies in modules of its own, which can be read by themselves."""
    imports = re.compile(r"^\s*(?:from|import) (?:\w+\.)*(test_\w+)", re.M)
    users = {
        str(file.relative_to(ROOT)): found
        for file in ROOT.glob("tests/**/*.py")
        if (found := imports.findall(file.read_text()))
    }
    assert users == {}


def test_no_source_file_has_three_hundred_lines() -> None:
    long = {
        str(file.relative_to(ROOT)): n
        for file in ROOT.glob("src/**/*.py")
        if (n := len(file.read_text().splitlines())) >= 300
    }
    assert long == {}
