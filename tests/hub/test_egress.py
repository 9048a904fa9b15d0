"""What leaves a silo is what its contract lists: every byte of every answer is walked, in runs of many kinds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import Trial, trial_of
from torch import Tensor

from amity.errors import InputError
from amity.federation.announced import bytes_on_wire
from amity.federation.encoding import decode, encode
from amity.federation.messages import Answer, Described, Done, Measured, Message, Standing, Upload
from amity.federation.run_contract import RunContract
from amity.methods import METHODS
from amity.metric import main_metric
from amity.report.view import view_of
from amity.site.results import finish

PATTERN = np.float32(0.73165423)
"""A number that no model has by itself: it stands in the silo's features."""

FILE = "patients-of-ward-nine.npz"

SECRETS = (
    PATTERN.tobytes(),
    np.float64(PATTERN).tobytes(),
    b"0.7316542",
    b"ward-nine",
    b"/state",
)
"""None of these may occur in any answer: a feature in two widths and as text, the data's file, the silo's folder."""

METHOD = st.sampled_from(sorted(METHODS.keys() - {"pooled"}))
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "min_count": st.sampled_from([2, 5, 40]),
        "min_mix": st.just(2),
        "safe": st.just(True),
        "ending": st.sampled_from([2, "auto"]),
        "val_fraction": st.just(0.3),
        "train_loss": st.just(True),
        "evaluate_every": st.just(2),
        "metric": st.sampled_from(["balanced", "auroc", "f1"]),
        "robust": st.just("norm"),
        "local_epochs_range": st.just("1:2"),
        "class_weights": st.just("balanced"),
    },
)


def planted(folder: Path) -> Path:
    """The same silo, with the pattern in its features, and a name of its file that tells something."""
    before, file = folder / "data.npz", folder / FILE
    with np.load(before) as arrays:
        found = {key: arrays[key].copy() for key in arrays}
    for part in ("x_train", "x_test"):
        found[part][:, :, 3, 3] = PATTERN
    before.unlink()
    np.savez(file, **found)
    toml = folder / "silo.toml"
    toml.write_text(toml.read_text().replace("data.npz", FILE))
    return folder


def answers_of(trial: Trial) -> Iterator[tuple[Message, bytes]]:
    """Conduct a run, and return each message with the bytes of the answer to it."""
    crossed: list[tuple[Message, bytes]] = []

    def note(name: str, message: Message, answer: bytes) -> bytes:
        crossed.append((message, answer))
        return answer

    with trial.network() as network:
        network.after = note
        trial.conduct(network)
    assert trial.phase in ("ended", "incomplete")
    return iter(crossed)


def check(contract: RunContract, message: Message, content: bytes) -> Answer:
    """Walk an answer: it has no byte beyond its message, and its message nothing beyond the contract."""
    for secret in SECRETS:
        assert secret not in content
    answer = decode(content)
    assert not isinstance(answer, type(message)) and encode(answer) == content
    listed = {
        kind: {one.name: one for one in contract.leaves if one.kind == kind} for kind in ("tensor", "metric", "count")
    }
    match answer:
        case Described(member=text):
            member = json.loads(text)
            form = contract.data
            assert member.pop("name") in contract.invited and member.pop("classes") == form.classes
            assert tuple(member.pop("shape")) == form.shape
            assert member.pop("group") is None and member.pop("data") == ""
            assert member.keys() <= listed["count"].keys() and isinstance(member["size"], int)
        case Standing():
            assert answer.layout == contract.layout and answer.round <= contract.rounds
        case Upload():
            assert isinstance(answer.seconds, float) and "seconds" in listed["count"]
            for name, value in answer.values.items():
                assert value.numel() == 0 or fits(listed["tensor"][name], value, contract)
        case Measured():
            assert {"examples", "failed", "withheld"} <= listed["count"].keys()
            main = main_metric(contract.options.metric, contract.data.classes).key
            numbers: dict[str, Any] = {main: answer.main, "loss": answer.loss, **answer.metrics}
            numbers |= {key: value for key in ("val", "train_loss") if (value := getattr(answer, key)) is not None}
            assert numbers.keys() <= listed["metric"].keys()
            assert all(type(value) in (int, float) for value in numbers.values())
            check_counts(contract.options.min_count, answer, numbers)
        case _:
            assert isinstance(answer, Done)  # which has nothing but run, round and silo
    return answer


def fits(leaving: Any, value: Tensor, contract: RunContract) -> bool:
    """Whether a tensor has the width, and no more numbers than, the contract says in words and in bytes."""
    kind = str(value.dtype).removeprefix("torch.")
    said = leaving.words.partition(": ")[2]
    most = int(said.partition(" x ")[0].replace(",", ""))
    size = bytes_on_wire(value.numel(), value.element_size(), value.is_floating_point(), contract.wire)
    return f" x {kind}" in said and value.numel() <= most and size <= leaving.bytes


def check_counts(least: int, answer: Measured, numbers: dict[str, Any]) -> None:
    """An accuracy that is told tells of enough examples that are right, and of enough that are wrong."""
    if least == 1 or answer.examples == 0:
        return
    assert answer.examples >= least
    accuracy = numbers.get("accuracy", math.nan)
    if not math.isnan(accuracy):
        right = accuracy * answer.examples / 100
        assert least - 1e-6 <= right <= answer.examples - least + 1e-6


def walk(method: str, options: dict[str, Any]) -> None:
    """Conduct one run of three silos, and check all that leaves them."""
    if method == "separate" and options.get("robust"):
        options = {key: value for key, value in options.items() if key != "robust"}
    with TemporaryDirectory() as folder:
        try:
            trial = trial_of(Path(folder), method, rounds=2, **options)
        except InputError:  # not every method goes with every option
            return
        for one in trial.folders.values():
            planted(one)
        kinds = {type(check(trial.contract, message, content)) for message, content in answers_of(trial)}
        assert {Described, Standing, Upload, Measured, Done} <= kinds


@settings(max_examples=5, deadline=None)  # half a second each: test_..._by_any_method has many
@given(method=METHOD, options=OPTIONS)
def test_nothing_leaves_but_what_is_listed(method: str, options: dict[str, Any]) -> None:
    walk(method, options)


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"pooled"}))
@settings(max_examples=10, deadline=None)
@given(options=OPTIONS)
def test_nothing_leaves_but_what_is_listed_by_any_method(method: str, options: dict[str, Any]) -> None:
    walk(method, options)


def test_the_walk_sees_what_does_not_belong() -> None:
    """Each check of the walk fails where an answer holds what it must not."""
    with TemporaryDirectory() as folder:
        trial = trial_of(Path(folder), "fedavg", rounds=1)
        found = {type(decode(content)): (message, content) for message, content in answers_of(trial)}
    message, content = found[Upload]
    upload = decode(content)
    assert isinstance(upload, Upload)
    check(trial.contract, message, content)
    params = upload.values["params"]
    extra = params.clone()
    extra[7] = float(PATTERN)
    for changed in (
        {**upload.values, "examples": params},  # a tensor that is not listed
        {**upload.values, "params": params.repeat(2)},  # too long
        {**upload.values, "params": params.double()},  # of another type
        {**upload.values, "params": extra},  # a feature among the weights
    ):
        with pytest.raises((AssertionError, KeyError)):
            check(trial.contract, message, encode(upload._replace(values=changed)))
    with pytest.raises(Exception):  # noqa: B017, PT011 - decoding refuses it, or the walk does
        check(trial.contract, message, content + b"more")
    asked, content = found[Measured]
    said = decode(content)
    assert isinstance(said, Measured)
    check(trial.contract, asked, content)
    strict = replace(trial.contract, run={**trial.contract.run, "min_count": said.examples})
    for contract, changed_said in (
        (trial.contract, said._replace(metrics={**said.metrics, "age of patient 7": 61.0})),
        (strict, said._replace(main=50.0)),
    ):
        with pytest.raises(AssertionError):
            check(contract, asked, encode(changed_said))


def test_what_is_withheld_from_the_server_the_silo_has(tmp_path: Path) -> None:
    """The record has no score at all, its page is drawn all the same, and each silo finds its own verdict."""
    trial = trial_of(tmp_path, "fedavg", rounds=1, min_count=10_000)
    said = [answer for _, content in answers_of(trial) if isinstance(answer := decode(content), Measured)]
    assert len(said) == 3 and all(one.withheld and one.examples == 0 and math.isnan(one.main) for one in said)
    (line,) = trial.record.lines
    assert line["mean"] is None and line["withheld"] == [True] * 3 and line["accuracy"] == [None] * 3
    results = trial.record.results
    assert results["delivered"] is None and results["per_client"] == [None] * 3
    view = view_of([trial.record])
    (told,) = [alarm for run in view["runs"] for alarm in run["alarms"] if alarm["title"] == "withheld scores"]
    assert told["words"].startswith("accuracy is withheld by ") and set(told["silos"]) == set(trial.names)
    for name in trial.names:
        verdict = finish(trial.site(name), trial.contract.name)
        assert verdict["examples"] > 0 and verdict["personal"] is not None and verdict["alone"] is not None
        assert verdict["metrics"]["personal"]["auroc"] is not None
