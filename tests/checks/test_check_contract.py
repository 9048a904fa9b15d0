"""A silo's data and a run's contract: what fits, what does not, and no example in what is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from amity.checks import contract as checked
from amity.checks import machine
from amity.checks.contract import check_silos_run
from amity.checks.findings import Account, Finding
from amity.engines.flare.kits import signing_key
from amity.engines.flare.kits.certificates import key_pem, load_key
from amity.federation.approvals import approve
from amity.federation.run_contract import RunContract
from amity.federation.signed import sign, to_json
from amity.hub.run_file import contract_of_file, planned

DRAFT = """\
name = "sepsis-1"
invited = ["north"]
[data]
features = ["sugar", "pressure"]
labels = ["ill", "other", "well"]
[run]
method = "fedamp"
rounds = 3
"""
SECRET = "Miller"


def found_in(place: Path, run: Path | None = None) -> dict[str, Finding]:
    account = Account()
    with account.about("all"):
        check_silos_run(account, place / "north", run)
    names = [one.check for one in account.findings]
    assert len(names) == len(set(names)), account.findings
    assert SECRET not in str(account.findings)
    return {one.check: one for one in account.findings}


def configured(place: Path, *lines: str, but: Sequence[str] = ()) -> None:
    """Change the silo's configuration."""
    file = place / "north" / "silo.toml"
    kept = [line for line in file.read_text().splitlines() if line.split(" = ")[0] not in but]
    file.write_text("\n".join([*kept, *lines]) + "\n")


def drafted(place: Path, text: str = DRAFT) -> Path:
    file = place / "RUN.toml"
    file.write_text(text)
    return file


def contract_of(place: Path, **changes: Any) -> RunContract:
    return replace(contract_of_file(drafted(place), "hearts", ["north"]), **changes)


def signed(place: Path, contract: RunContract, key: tuple[bytes, bytes] | None = None) -> Path:
    file = place / "contract.json"
    file.write_text(to_json(sign(contract, *(key or signing_key(place / "hub")), datetime.now(UTC))))
    return file


def test_a_draft_that_fits(place: Path) -> None:
    found = found_in(place, drafted(place))
    assert {one.grade for one in found.values()} == {"PASS"}, found
    assert "run sepsis-1: fedamp" in found["contract"].found and "draft" in found["contract"].found
    assert found["data"].found == (
        "they fit the contract: 26 training examples, 6 validation examples, 8 test examples, examples of 2 numbers, "
        "2 of the contract's 3 classes to train on"
    )
    assert "numbers, as the contract has it" in found["model"].found
    assert "the run needs about" in found["disk"].found


def test_a_contract_that_was_signed(place: Path) -> None:
    contract = contract_of(place)
    found = found_in(place, signed(place, contract))
    assert "the signature of coordinator@hearts holds" in found["contract"].found
    assert found["agreement"].grade == "WARN" and "federation approve sepsis-1" in found["agreement"].remedy
    approve(place / "north" / "state", contract, "north", "Dr Anna", datetime.now(UTC))
    assert found_in(place, signed(place, contract))["agreement"].found == "the silo takes part, by Dr Anna"


def test_a_contract_that_somebody_else_has_signed(place: Path) -> None:
    own = (place / "north" / "kit" / "startup" / "client.crt").read_bytes()
    key = key_pem(load_key((place / "north" / "key.pem").read_bytes()))
    found = found_in(place, signed(place, contract_of(place), (key, own)))
    assert found["contract"].grade == "FAIL" and "project_admin" in found["contract"].found
    assert found["model"].grade == found["data"].grade == "PASS", "the rest is looked at all the same"


def test_a_contract_that_cannot_be_read(place: Path) -> None:
    for text in ("", "{}", "[" * 99_999, json.dumps({"form": 2})):
        (place / "contract.json").write_text(text)
        found = found_in(place, place / "contract.json")
        assert found["contract"].grade == "FAIL" and found["model"].grade == "SKIP"
        assert found["data"].grade == "PASS" and found["data"].found.startswith("40 examples")


def test_a_draft_that_cannot_be_used(place: Path) -> None:
    found = found_in(place, drafted(place, DRAFT.replace("fedamp", "fedamps")))
    assert found["contract"].grade == "FAIL" and "fedamp" in found["contract"].remedy


@pytest.mark.parametrize(("version", "grade"), [("0.1.9", "PASS"), ("0.2.0", "FAIL"), ("1.1.0", "FAIL"), ("?", "FAIL")])
def test_versions(place: Path, monkeypatch: pytest.MonkeyPatch, version: str, grade: str) -> None:
    monkeypatch.setattr(machine, "installed", lambda _: "0.1.0")
    found = found_in(place, signed(place, contract_of(place, amity=version)))["contract's version"]
    assert found.grade == grade and version in found.found


def test_another_model_than_the_contracts(place: Path) -> None:
    found = found_in(place, signed(place, contract_of(place, layout="0" * 16)))
    assert found["model"].grade == "FAIL" and "another model" in found["model"].found


def test_a_model_of_ones_own(place: Path) -> None:
    contract = contract_of(place)
    run = {**contract.run, "model": "their_models:build"}
    file = signed(place, replace(contract, run=run))
    assert "silo.toml" in found_in(place, file)["model"].remedy
    configured(place, 'model = "no_such_module_here:build"')
    found = found_in(place, file)["model"]
    assert found.grade == "FAIL" and "no_such_module_here:build" in found.found and "beside silo.toml" in found.remedy


def test_a_silo_that_is_not_invited(place: Path) -> None:
    file = drafted(place, DRAFT.replace('"north"', '"south", "east"'))
    assert "north is not among those invited" in found_in(place, file)["agreement"].found


def test_a_policy_against_it(place: Path) -> None:
    configured(place, "[policy]", 'methods = ["fedavg"]', 'approve = "standing"')
    found = found_in(place, drafted(place))["agreement"]
    assert found.grade == "FAIL" and "methods allows fedavg, it has fedamp" in found.found


def test_labels_and_columns_that_do_not_fit(place: Path) -> None:
    found = found_in(place, drafted(place, DRAFT.replace('"well"', '"fine"')))
    assert found["data"].grade == "FAIL" and "20 of 40 examples" in found["data"].found
    found = found_in(place, drafted(place, DRAFT.replace('"sugar"', '"pulse"')))
    assert "lacks 1 of 2 (pulse)" in found["data"].found and "rename" in found["data"].remedy


def test_a_run_that_needs_more_room(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked, "needed", lambda *_: 10**18)
    assert found_in(place, drafted(place))["disk"].grade == "FAIL"


def test_a_larger_model_needs_more_room(place: Path) -> None:
    needs = []
    for model in ("mlr", "mlp"):
        contract = contract_of_file(drafted(place, f'{DRAFT}model = "{model}"\n'), "hearts", ["north"])
        plan = planned(contract.options, contract.data, contract.invited).plan
        needs.append(checked.needed(plan, contract))
        assert needs[-1] > 3 * 4 * 4 * plan.task.size, "state, before, after and upload, three times"
    assert needs[0] < needs[1]


def test_data_that_are_not_there(place: Path) -> None:
    (place / "north" / "patients.csv").unlink()
    assert "cannot be read (No such file" in found_in(place)["data"].found


def test_a_label_that_is_not_there(place: Path) -> None:
    configured(place, 'label = "outcome"', but=["label"])
    found = found_in(place)["data"]
    assert "called 'outcome', none of its 3 columns is" in found.found and "label" in found.remedy


@pytest.mark.parametrize(
    "text",
    [
        f"{SECRET},45,ill\n{SECRET},46,well\n",
        f"age,name,diagnosis\n4,{SECRET},ill\n5,{SECRET},well\n",
        f"age,diagnosis\n{SECRET},ill\n5,{SECRET}\n",
        f"age,diagnosis\n4\n{SECRET}\n",
        "age,age,diagnosis\n4,5,ill\n",
        "age,diagnosis\n",
        "",
        "\0\0\0",
    ],
)
def test_broken_tables_are_not_quoted(place: Path, text: str) -> None:
    (place / "north" / "patients.csv").write_text(text)
    found = found_in(place)["data"]
    assert found.grade == "FAIL" and found.remedy


def test_data_of_a_function(place: Path) -> None:
    name = f"data_of_{abs(hash(str(place)))}"
    code = "import numpy as np\ndef load():\n    return np.zeros((6, 2)), np.array([0, 1] * 3)\n"
    (place / "north" / f"{name}.py").write_text(
        f"{code}def few():\n    return 1\ndef end():\n    raise ValueError('{SECRET}')\n"
    )
    configured(place, f'factory = "{name}:load"', but=["data", "label"])
    assert found_in(place)["data"].found == f"6 examples by {name}:load, 2 classes"
    configured(place, f'factory = "{name}:few"', but=["factory"])
    assert "must give x_train" in found_in(place)["data"].found
    configured(place, f'factory = "{name}:end"', but=["factory"])
    assert "ValueError" in found_in(place)["data"].found and "--log-level" in found_in(place)["data"].remedy


def test_a_device_that_is_not_here(place: Path) -> None:
    configured(place, 'device = "cuda:77"')
    assert found_in(place)["device"].grade == "FAIL"
