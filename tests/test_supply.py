"""What an installed Amity is made of: the bill of materials, the page of licences, the file of hashes."""

import importlib.util
import json
import re
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def supply() -> ModuleType:
    spec = importlib.util.spec_from_file_location("supply", ROOT / "deploy" / "supply.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_amity_needs_is_followed_and_nothing_else(supply: ModuleType) -> None:
    found = supply.installed()
    assert {"amity", "torch", "numpy", "safetensors", "nvflare", "cryptography", "ray"} <= found.keys()
    assert not {"pytest", "ruff", "mypy", "hypothesis", "mkdocs"} & found.keys()  # tools of developers
    assert all(one.version == distribution(name).version for name, one in found.items())
    assert "torch" in supply.direct(found["amity"], found)


def test_the_page_of_licences_has_every_package_once_with_a_licence(supply: ModuleType) -> None:
    lines = supply.page(supply.installed()).splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")][2:]
    assert len(rows) == len(supply.installed()) - 1 == len({name for name, *_ in rows})
    assert {len(row) for row in rows} == {3} and all(row[2] for row in rows)
    assert not [row for row in rows if re.search(r"\bA?GPL", row[2])], (
        "a package with such a licence binds who ships it"
    )


def test_the_bill_names_each_package_and_who_needs_whom(supply: ModuleType) -> None:
    pytest.importorskip("cyclonedx", reason="`make sbom` installs it")
    bill = json.loads(supply.bill(supply.installed()))
    assert bill["bomFormat"] == "CycloneDX" and bill["metadata"]["component"]["name"] == "amity"
    named = {part["name"] for part in bill["components"]}
    assert named | {"amity"} == supply.installed().keys()
    assert all(part["purl"].startswith("pkg:pypi/") for part in bill["components"])
    assert {one["ref"] for one in bill["dependencies"]} >= {f"{n}=={d.version}" for n, d in supply.installed().items()}


def test_hashes_of_a_report_of_pip(supply: ModuleType) -> None:
    def package(name: str, download: dict[str, object]) -> dict[str, object]:
        return {"metadata": {"name": name, "version": "1.0"}, "download_info": download}

    found = [
        package("Zeta_b", {"archive_info": {"hashes": {"sha256": "ff" * 32}}}),
        package("amity", {"dir_info": {}}),
        package("alpha", {"archive_info": {"hashes": {"sha256": "00" * 32}}}),
    ]
    want = f"alpha==1.0 --hash=sha256:{'00' * 32}\nzeta-b==1.0 --hash=sha256:{'ff' * 32}\n"
    assert supply.hashed(json.dumps({"install": found})) == want
