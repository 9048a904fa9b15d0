"""Runs under differential privacy, end to end: what is on record, what is refused, what a silo's folder remembers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from opacus.accountants import RDPAccountant

import amity
from amity.config.privacy import Privacy
from amity.contract import InputError, State
from amity.federation.messages import Commit, Train
from amity.federation.stored_silo import StoredSilo
from amity.private_runs import check_private
from amity.record import read
from amity.report.view import view_of
from amity.report.view_privacy import privacy_of
from amity.resolve import alone_of
from amity.testing.federation import batchnorm, fresh_task, plan_of
from amity.tuning import tune


def _run(**options: Any) -> amity.Run:
    usual: dict[str, Any] = {"data": "digits", "clients": 3, "per_silo": 30, "model": "mlr", "rounds": 3, "epochs": 1}
    return amity.Run(**{"method": "fedavg", **usual, **options})


def test_epsilon_is_on_record_for_every_silo_and_equals_opacus_accountant(tmp_path: Path) -> None:
    """Silos are absent and lose uploads after training: who has trained has spent, whatever became of it."""
    run = _run(dp_noise=1.5, participation=0.7, drop=0.5, drop_phase="after")
    result = amity.run(run, out=tmp_path / "run")
    silos = list(result.scores)
    accountants = {silo: RDPAccountant() for silo in silos}
    deltas = {}
    for line in result.lines:
        assert line["spent"].keys() == line["epochs"].keys() >= set(line["dropped"])
        for silo, spent in line["spent"].items():
            for _ in range(spent["steps"]):
                accountants[silo].step(noise_multiplier=spent["noise"], sample_rate=spent["rate"])
            deltas[silo] = spent["delta"]
        for silo, epsilon in line["epsilon"].items():
            assert epsilon == pytest.approx(accountants[silo].get_epsilon(deltas[silo]), abs=1e-6)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    last = result.lines[-1]["epsilon"]
    assert summary["privacy"]["epsilon"] == [last.get(silo, 0.0) for silo in silos]
    assert summary["privacy"]["delta"] == [deltas.get(silo) for silo in silos]


def test_a_target_is_kept_at_every_silo_and_rounds_cannot_be_added(tmp_path: Path) -> None:
    run = _run(method="mr-mtl", setting="iid", dp_epsilon=3.0)
    result = amity.run(run, out=tmp_path / "run")
    assert all(2.9 < epsilon <= 3.0 for epsilon in result.lines[-1]["epsilon"].values())
    with pytest.raises(InputError, match="has spent dp_epsilon 3 on 3 rounds, got 5: its privacy is used up"):
        amity.run(_run(method="mr-mtl", setting="iid", dp_epsilon=3.0, rounds=5), out=tmp_path / "run", resume=True)


def test_two_runs_with_the_same_seed_have_other_noise() -> None:
    one, other = (amity.run(_run(dp_noise=1.0, rounds=1)) for _ in range(2))
    assert one.lines[0]["loss"] != other.lines[0]["loss"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dp_noise": 1.0, "dp_epsilon": 2.0}, "dp_noise and dp_epsilon exclude each other, got 1 and 2"),
        ({"dp_clip": 0.5}, "dp_clip is a part of differential privacy, got 0.5 without noise"),
        ({"dp_delta": 1e-5}, "dp_delta is a part of differential privacy"),
        ({"dp_noise": 0.0}, "dp_noise to be a number > 0"),
        ({"dp_noise": 1.0, "dp_delta": 0.5}, "dp_delta needs to be below 1 / n"),
        ({"dp_noise": 1.0, "engine": "stacked"}, "no stacked engine"),
        ({"dp_noise": 1.0, "ending": 3}, "cannot account for an ending"),
        ({"dp_noise": 1.0, "safe": True}, "cannot account for an ending"),
        ({"dp_noise": 1.0, "class_weights": "balanced"}, "cannot account for class weights"),
        ({"dp_noise": 1.0, "train_loss": True}, "cannot account for train_loss"),
        ({"dp_noise": 1.0, "method": "fedfomo"}, "FedFomo, which weighs models on validation data"),
        ({"dp_noise": 1.0, "method": "fedavg-ft"}, "FineTuned, which fine-tunes a model"),
    ],
)
def test_what_no_epsilon_would_cover_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        amity.run(_run(**options))


def test_models_that_mix_examples_are_refused() -> None:
    plan, _ = plan_of("fedavg", on=fresh_task(batchnorm))
    with pytest.raises(InputError, match="this one has BatchNorm1d, whose statistics mix examples"):
        check_private(
            amity.Run("fedavg", dp_noise=1.0, ending="none"), plan._replace(privacy=Privacy(1.0, 1.0, None, None))
        )


@pytest.mark.parametrize("noise", [1e-320, 1e-200])
def test_noise_that_is_none_is_refused_before_anything_is_written(noise: float, tmp_path: Path) -> None:
    run = amity.Run("fedavg", data="synthetic", clients=2, per_silo=20, rounds=1, dp_noise=noise)
    with pytest.raises(InputError, match="needs noise that hides something"):
        amity.run(run, out=tmp_path / "run", alone=False)
    assert not (tmp_path / "run").exists()


def test_a_silo_alone_needs_no_noise() -> None:
    alone = alone_of(_run(dp_epsilon=2.0, dp_clip=0.5, dp_delta=1e-5))
    assert alone.privacy is None


def _side(folder: Path) -> tuple[StoredSilo, State]:
    plan, hosted = plan_of("fedavg", rounds=2, epochs=1)  # 7 examples, a batch of 8: one noisy gradient in a round
    plan = plan._replace(privacy=Privacy(1.0, 1.0, None, None))
    down = plan.method.download(plan.method.init_server(plan.task, plan.fed), torch.tensor([0]), 1, _no_stream).to(0)
    return StoredSilo(plan, 0, hosted[0], folder), down


def _no_stream(role: str, key: int) -> torch.Generator:
    return torch.Generator()


def test_a_silo_remembers_what_it_has_spent_and_never_answers_twice_with_the_same_noise(tmp_path: Path) -> None:
    """A server that asks again, for something else, gets other noise; the silo counts both, and stops in the end."""
    side, down = _side(tmp_path)
    first = side.answer(Train("run", 1, 0, down))
    same = side.answer(Train("run", 1, 0, down))
    assert torch.equal(first.values["params"], same.values["params"]) and side.spent == 1  # type: ignore[union-attr]
    side.close()
    again, _ = _side(tmp_path)
    assert again.spent == 1
    moved = {**down, "params": down["params"] + 1}
    other = again.answer(Train("run", 1, 0, moved))
    assert again.spent == 2
    assert not torch.allclose(first.values["params"], other.values["params"] - 1, atol=1e-3)  # type: ignore[union-attr]
    again.answer(Commit("run", 1, 0, "lost"))
    with pytest.raises(InputError, match="privacy is spent, after the 2 noisy gradients"):
        again.answer(Train("run", 2, 0, down))
    again.close()


def test_searches_and_advice_are_refused() -> None:
    """They train many times on the same examples, and no record adds that up."""
    with pytest.raises(InputError, match="tune trains many times on the same examples"):
        tune(_run(dp_noise=1.0))
    with pytest.raises(InputError, match="advise trains many times on the same examples"):
        amity.advise(_run(dp_noise=1.0))


def test_the_report_says_what_each_silo_has_spent(tmp_path: Path) -> None:
    amity.run(_run(dp_noise=2.0, rounds=1), out=tmp_path / "run")
    (run,) = view_of([read(tmp_path / "run")])["runs"]
    privacy = run.get("privacy")
    assert privacy is not None
    assert privacy["silos"] == read(tmp_path / "run").lines[-1]["epsilon"]
    assert f"{max(privacy['silos'].values()):.2f} (Opacus' accountant" in privacy["words"]
    assert "and delta 1 / (10 n) at a silo with n training examples" in privacy["words"]
    other = dataclasses.replace(read(tmp_path / "run"), config={"dp_delta": 1e-5})
    told = privacy_of(other)
    assert told is not None and "and delta 1e-05." in told["words"]
