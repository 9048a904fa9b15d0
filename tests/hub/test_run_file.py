"""RUN.toml: a contract comes of it, or one line with all that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from amity.config.options import fields_of
from amity.config.run import Run
from amity.errors import InputError
from amity.federation.contract_rules import ELSEWHERE
from amity.federation.plan import Member, layout_of
from amity.federation.run_contract import DataForm, Limits, RunContract
from amity.federation.signed import Signed, any_from_json, from_json, to_json
from amity.hub.run_file import contract_of_file, model_of, planned, schema_contract_of_file
from amity.resolve import resolve

MEMBERS = ("aurora", "borea", "cirrus")

SMALLEST: dict[str, Any] = {
    "name": "sepsis-1",
    "data": {"shape": [4], "classes": 3},
    "run": {"method": "fedamp"},
}


def contract_of(folder: Path, table: dict[str, Any], members: tuple[str, ...] = MEMBERS) -> RunContract:
    file = folder / "RUN.toml"
    file.write_text(tomli_w.dumps(table))
    return contract_of_file(file, "north", members)


def problems(folder: Path, table: dict[str, Any], members: tuple[str, ...] = MEMBERS) -> str:
    with pytest.raises(InputError) as refused:
        contract_of(folder, table, members)
    line = str(refused.value)
    assert line.startswith(str(folder / "RUN.toml")) and len(line.splitlines()) == 1
    return line


def test_what_is_left_out_has_a_default(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, SMALLEST)
    assert contract.invited == MEMBERS and contract.policy == "wait" and contract.quorum == 3
    assert contract.limits == Limits() and contract.wire == "float32" and contract.consortium == "north"
    assert contract.data == DataForm((4,), ("0", "1", "2"))
    assert contract.options == Run("fedamp", model="mlp", ending="auto", safe=True, robust="norm")
    assert contract.least_rounds == contract.options.rounds


def test_everything_can_be_said(tmp_path: Path) -> None:
    table = {
        "name": "sepsis-1",
        "invited": ["cirrus", "aurora"],
        "policy": "quorum",
        "quorum": 1,
        "least_rounds": 3,
        "wire": "bfloat16",
        "limits": {"turn": 60, "absence": 7200, "failures": 2},
        "data": {"features": ["age", "pulse"], "labels": "quantities"},
        "run": {
            **{"method": "fedamp", "rounds": 7, "epochs": 2, "seed": 5, "model": "mlr", "ending": 4, "safe": False},
            "robust": "off",
            "set": {"sigma": 50.0},
        },
    }
    contract = contract_of(tmp_path, table)
    assert contract.invited == ("cirrus", "aurora") and (contract.policy, contract.quorum) == ("quorum", 1)
    assert contract.least_rounds == 3 and contract.wire == "bfloat16" and contract.limits == Limits(60, 7200, 2)
    assert contract.data == DataForm((2,), None, ("age", "pulse"))
    options: dict[str, Any] = {"rounds": 7, "epochs": 2, "seed": 5, "model": "mlr", "ending": 4}
    assert contract.options == Run("fedamp", **options, settings={"sigma": 50.0})
    leaves = {one.name: one for one in contract.leaves}
    assert leaves["params"].bytes == 2 * 3  # two weights and a bias, as bfloat16
    assert "r2" in leaves and "accuracy" not in leaves
    signed = Signed(contract, "", "text\n", "")
    assert from_json(to_json(signed)) == signed


def test_classes_may_have_names(tmp_path: Path) -> None:
    form = {"features": ["age", "pulse"], "labels": ["ill", "well"]}
    assert contract_of(tmp_path, {**SMALLEST, "data": form}).data == DataForm((2,), ("ill", "well"), ("age", "pulse"))


def test_the_layout_is_that_of_the_real_run_whatever_the_sizes(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, {**SMALLEST, "run": {"method": "apple", "set": {"budget": 1}}})
    sizes = (7, 900, 31)
    roster = [Member(name, size, (4,), 3, True) for name, size in zip(MEMBERS, sizes, strict=True)]
    assert layout_of(resolve(contract.options, roster).plan) == contract.layout
    other = replace(contract.options, settings={"budget": 2})
    assert layout_of(resolve(other, roster).plan) != contract.layout
    assert layout_of(planned(contract.options, DataForm((5,), ("a", "b", "c")), MEMBERS).plan) != contract.layout


def test_success_asks_for_no_more_rounds_than_silos_are_asked_for(tmp_path: Path) -> None:
    sampled = {**SMALLEST, "run": {"method": "fedavg", "participation": 0.5}}
    assert contract_of(tmp_path, sampled).least_rounds == 1
    assert contract_of(tmp_path, {**SMALLEST, "policy": "quorum", "quorum": 2}).least_rounds == 1


@pytest.mark.parametrize("option", ELSEWHERE)
def test_options_that_make_no_sense_between_silos_are_refused_with_the_reason(tmp_path: Path, option: str) -> None:
    value = fields_of(Run)[option].default  # even where it would change nothing
    line = problems(tmp_path, {**SMALLEST, "run": {"method": "fedavg", option: value}})
    assert f"run.{option} has no place between silos, {ELSEWHERE[option]}: leave it out" in line


def test_every_option_is_either_taken_or_refused_with_a_reason(tmp_path: Path) -> None:
    taken = {
        "per_silo": 50,
        "test_fraction": 0.3,
        "model": "mlr",
        "rounds": 3,
        "epochs": 2,
        "batch": 8,
        "lr": 0.1,
        "lr_decay": 0.9,
        "optimizer": "sgd",
        "momentum": 0.5,
        "val_fraction": 0.1,
        "ending": "auto",
        "safe": True,
        "robust": "median",
        "min_mix": 2,
        "min_count": 5,
        "metric": "balanced",
        "class_weights": "balanced",
        "evaluate_every": 2,
        "train_loss": True,
        "seed": 3,
        "participation": 0.9,  # all three: fewer could not mix the models of two others
        "local_epochs_range": "1:3",
    }
    private = {"dp_noise": "none", "dp_epsilon": 4.0, "dp_clip": 0.5, "dp_delta": 1e-3}  # which few others go with
    assert {"method", *taken, *private} | ELSEWHERE.keys() == fields_of(Run).keys()
    contract = contract_of(tmp_path, {**SMALLEST, "run": {"method": "fedavg", **taken}})
    assert {key: contract.run[key] for key in taken} == taken
    noisy = contract_of(tmp_path, {**SMALLEST, "run": {"method": "mr-mtl", **private}})
    assert {key: noisy.run[key] for key in private} == private and not noisy.run["safe"]
    assert noisy.privacy == {"epsilon": 4.0, "clip": 0.5, "delta": 1e-3}
    with pytest.raises(InputError, match="RUN.toml: dp_clip is a part of differential privacy, got 0.5 without noise"):
        contract_of(tmp_path, {**SMALLEST, "run": {"method": "mr-mtl", "dp_clip": 0.5}})


@pytest.mark.parametrize(
    ("terms", "options", "words"),
    [
        ({}, {"min_mix": 3}, "min_mix 3 needs rounds of at least 4 silos, the quorum is 3: raise it, or lower"),
        (
            {"policy": "quorum", "quorum": 2},
            {"min_mix": 2},
            "min_mix 2 needs rounds of at least 3 silos, the quorum is 2",
        ),
        ({}, {"min_mix": 2, "participation": 0.5}, "min_mix 2 needs as many others in a round, there are 1"),
    ],
)
def test_rounds_that_could_never_mix_enough_are_refused_at_once(
    tmp_path: Path, terms: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    assert words in problems(tmp_path, {**SMALLEST, **terms, "run": {"method": "fedavg", **options}})
    enough = {**SMALLEST, **terms, "quorum": 3, "run": {"method": "fedavg", "min_mix": 2}}
    assert contract_of(tmp_path, enough).options.min_mix == 2


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    wrong: dict[str, Any] = {
        "name": "a/b",
        "invited": ["aurora", "bora"],
        "policy": "hope",
        "quorum": 0,
        "least_rounds": -1,
        "wire": "int8",
        "nmae": 1,
        "limits": {"turn": 0, "speed": 1},
        "data": {"shape": [0], "classes": 1, "colour": "red"},
        "run": {
            "method": "fedavg",
            "device": "cuda",
            "rounds": 0,
            "lr": -1.0,
            "speed": 9,
            "set": {"sigma": 1, "mu": 2},
        },
    }
    line = problems(tmp_path, wrong)
    for needed in (
        "unknown key nmae: did you mean name?",
        "name must be letters, digits, - and _",
        "invited names 'bora', who is no member: did you mean borea",
        "policy must be wait or quorum, got 'hope'",
        "quorum must be a whole number from 1 to 2",
        "wire must be float32 or float16 or bfloat16, got 'int8'",
        "limits.turn must be a whole number from 1, got 0",
        "unknown key limits.speed",
        "data.shape must be a list of whole numbers from 1",
        "data.classes must be a whole number from 2",
        "unknown key data.colour",
        "run.device has no place between silos, each silo decides about its own machine",
        "run needs rounds to be a whole number >= 1",
        "run needs lr to be a number > 0",
        "unknown key run.speed",
        "'sigma'",
        "'mu'",
    ):
        assert needed in line, needed


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": 1}, "name must be a text, got 1"),
        ({"invited": []}, "invited must name members, there are none"),
        ({"invited": ["aurora", "aurora"]}, "invited must be a list of members, each once"),
        ({"invited": "aurora"}, "invited must be a list of members"),
        ({"policy": "quorum"}, "quorum is missing"),
        ({"quorum": 2}, 'quorum is all 3 with policy = "wait", got 2: set policy = "quorum"'),
        ({"least_rounds": 21}, "least_rounds must be a whole number from 0 to 20"),
        ({"limits": 5}, r"\[limits\] must be a table, got 5"),
        ({"data": {"shape": [4]}}, "data needs either labels"),
        ({"data": {"shape": [4], "classes": 2, "labels": ["a", "b"]}}, "data needs either labels"),
        ({"data": {"shape": [4], "labels": ["a"]}}, "data.labels must be a list of at least 2 classes"),
        ({"data": {"shape": [4], "labels": ["a", "a"]}}, "data.labels must be"),
        ({"data": {"classes": 2}}, "data.shape must be .* is missing"),
        ({"data": {"features": ["a", "b"], "shape": [3], "classes": 2}}, r"data.shape must be \[2\]"),
        ({"data": {"features": [], "classes": 2}}, "data.features must be a list of columns"),
        ({"run": {}}, "run.method is missing"),
        ({"run": {"method": "pooled"}}, "run.method pooled needs all data in one place"),
        ({"run": {"method": "fedap"}}, "unknown method 'fedap': did you mean fedamp"),
        ({"run": {"method": "fedamp", "set": 3}}, "run.set must be a table"),
        ({"run": {"method": "fedamp", "set": {"sigma": -1}}}, "fedamp needs sigma to be a number > 0"),
        ({"run": {"method": "fedavg", "model": "vgg"}}, "unknown model 'vgg'"),
        ({"run": {"method": "fedavg", "model": "resnet18"}}, "resnet18"),
        ({"run": {"method": "fedavg", "model": "no.such:thing"}}, "'no.such:thing', which is not found here"),
        ({"run": {"method": "fedavg", "model": "math:pi"}}, "'math:pi' is none"),
        ({"run": {"method": "fedavg", "model": "os:system('ls')"}}, "os:system"),
        ({"run": {"method": "fedavg", "momentum": 0.5, "optimizer": "adam"}}, "momentum is a part of sgd"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        contract_of(tmp_path, {**SMALLEST, **change})


@pytest.mark.parametrize("key", SMALLEST)
def test_what_is_needed_and_missing_is_told(tmp_path: Path, key: str) -> None:
    assert f"{key}" in problems(tmp_path, {name: value for name, value in SMALLEST.items() if name != key})


def test_without_members_nobody_can_be_invited(tmp_path: Path) -> None:
    assert "invited must name members, there are none" in problems(tmp_path, SMALLEST, ())


def test_a_model_of_the_consortium_is_built_to_know_its_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "north_models.py").write_text("from torch import nn\ndef small():\n    return nn.Linear(4, 3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    table = {**SMALLEST, "run": {"method": "fedavg", "model": "north_models:small"}}
    contract = contract_of(tmp_path, table)
    assert contract.options.model == "north_models:small"
    assert {one.name: one.bytes for one in contract.leaves}["params"] == 4 * (4 * 3 + 3)
    builder = model_of(contract.options)
    assert callable(builder) and model_of(Run("fedavg", model="mlp")) is None


def test_what_is_no_toml_is_told(tmp_path: Path) -> None:
    (tmp_path / "RUN.toml").write_text("name = ")
    with pytest.raises(InputError, match="is not valid TOML"):
        contract_of_file(tmp_path / "RUN.toml", "north", MEMBERS)
    with pytest.raises(InputError, match="cannot be read"):
        contract_of_file(tmp_path / "other.toml", "north", MEMBERS)


SCHEMA = """
version = 1
label = "diagnosis"
[[columns]]
name = "age"
kind = "number"
centre = 50.0
scale = 10.0
[[columns]]
name = "sex"
kind = "category"
categories = ["f", "m"]
"""


def test_a_schema_is_part_of_the_contract_in_full(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    table = {**SMALLEST, "data": {"schema": "schema.toml", "labels": ["ill", "well"]}}
    contract = contract_of(tmp_path, table)
    assert contract.data.features == ("age", "sex=f", "sex=m") and contract.data.shape == (3,)
    back = from_json(to_json(Signed(contract, "", "text\n", "")))
    assert back.contract == contract and back.contract.hash() == contract.hash()
    (tmp_path / "schema.toml").write_text(SCHEMA.replace("scale = 10.0", "scale = 10.5"))
    assert contract_of(tmp_path, table).hash() != contract.hash()


def test_a_contract_about_the_schema_comes_of_the_same_file(tmp_path: Path) -> None:
    data = {"schema": "schema.toml", "label": "diagnosis", "labels": ["ill", "well"], "least_count": 9, "scale": "none"}
    file = tmp_path / "RUN.toml"
    file.write_text(tomli_w.dumps({**SMALLEST, "data": data, "run": {"method": "fedamp", "seed": 4}}))
    asked = schema_contract_of_file(file, "north", MEMBERS)
    contract = asked.contract
    assert asked.file == tmp_path / "schema.toml"
    assert (contract.name, contract.invited, contract.seed) == ("sepsis-1-schema", MEMBERS, 4)
    assert (contract.label, contract.labels, contract.least_count) == ("diagnosis", ("ill", "well"), 9)
    back = any_from_json(to_json(Signed(contract, "", "text\n", "")))
    assert back.contract == contract and contract.scale == "none"
    with pytest.raises(InputError, match="asks for a schema, a run's contract is needed"):
        from_json(to_json(back))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            {"schema": "none.toml", "classes": 2},
            "let silos agree on it by `amity federation schema`",
        ),
        ({"schema": "bad.toml", "classes": 2}, "bad.toml: version must be 1"),
        ({"schema": "schema.toml", "classes": 2, "features": ["a"]}, "data.features follows from data.schema"),
        ({"schema": "schema.toml", "classes": 2, "label": "ill"}, "data.label must be 'diagnosis'"),
        ({"schema": 3, "classes": 2}, "data.schema must be the name of a schema file"),
        (
            {"shape": [2], "classes": 2, "least_count": 5},
            "data.least_count is about a schema",
        ),
    ],
)
def test_what_is_wrong_with_a_schema_is_said(data: dict[str, Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "bad.toml").write_text('label = "a"\n')
    assert said in problems(tmp_path, {**SMALLEST, "data": data})


def test_all_that_is_wrong_with_what_silos_are_asked_is_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "RUN.toml"
    data = {"schema": "schema.toml", "classes": 2, "least_count": 2, "scale": "log", "shape": [3]}
    file.write_text(tomli_w.dumps({**SMALLEST, "data": data}))
    with pytest.raises(InputError) as refused:
        schema_contract_of_file(file, "north", MEMBERS)
    for said in ("label must be the name", "least_count must be", "scale must be auto", "shape follows from"):
        assert f"data.{said}" in str(refused.value)
