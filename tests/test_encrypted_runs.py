"""Runs on encrypted models, end to end: what is refused, what is on record, what goes with it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

import amity
import benchmarks.encrypted as measured
from amity.contract import InputError
from amity.encrypted_runs import ENCRYPTED, encrypted
from amity.federation.contract_rules import ELSEWHERE
from amity.federation.plan import Member
from amity.methods import METHODS, build
from amity.methods.encrypted import Encrypted
from amity.resolve import alone_of, resolve

ROSTER = [Member(name, 20, (1, 8, 8), 10) for name in ("ash", "birch", "cedar")]


def _run(**options: Any) -> amity.Run:
    usual: dict[str, Any] = {"data": "digits", "clients": 2, "per_silo": 30, "model": "mlr", "rounds": 2, "epochs": 1}
    return amity.Run(**{"method": "heurfedamp", "encrypted": True, **usual, **options})


@pytest.mark.parametrize("name", METHODS)
def test_methods_that_cannot_be_run_so_are_refused_by_name(name: str) -> None:
    run = _run(method=name)
    if name in ENCRYPTED:
        assert isinstance(resolve(run, ROSTER).plan.method, Encrypted)
    elif name in ("separate", "pooled"):  # nothing leaves a silo
        assert not isinstance(resolve(run, ROSTER).plan.method, Encrypted)
    else:
        with pytest.raises(InputError, match=f"got {name}: take fedamp, heurfedamp, fedacs or twin"):
            resolve(run, ROSTER)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"robust": "norm"}, "encrypted and robust exclude each other, got robust norm: .* leave it at off"),
        ({"engine": "stacked"}, "encrypted has no stacked engine, .*: use auto or loop"),
        ({"settings": {"init": "independent"}}, "one first model for all, got init=independent: leave it at shared"),
        ({"device": "cuda"}, "encrypted computes on the CPU, got device cuda: leave it at cpu"),
        ({"matrix_dir": "matrices"}, "encrypted has no matrices of models, got matrix_dir: leave it out"),
    ],
)
def test_what_does_not_go_with_it_is_refused_in_one_line(options: dict[str, Any], words: str) -> None:
    run = _run(**options)
    bare = build(run.method, run.settings)
    with pytest.raises(InputError, match=words) as error:
        encrypted(run, run.method, bare, bare)
    assert "\n" not in str(error.value)


def test_without_its_extra_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tenseal" else real(name))
    with pytest.raises(InputError, match=r"encrypted needs tenseal, it is not installed: pip install 'amity\[encryp"):
        resolve(_run(), ROSTER)


def test_it_has_no_place_between_organisations_yet() -> None:
    assert ELSEWHERE["encrypted"] == "encrypted attention is there for simulations alone"


def test_alone_nothing_is_encrypted() -> None:
    assert not alone_of(_run()).encrypted


def test_a_run_is_on_record_and_is_resumed(tmp_path: Path) -> None:
    """Silos go on alone at the end, and the third round is that; a run that is resumed has the key that it had."""
    run = _run(method="twin", ending=1)
    whole, plain = amity.run(run), amity.run(_run(method="twin", ending=1, encrypted=False))
    amity.run(_run(method="twin", rounds=1), out=tmp_path / "run")
    begun = amity.run(_run(method="twin", rounds=2), out=tmp_path / "run", resume=True)
    assert [line["round"] for line in begun.lines] == [1, 2]
    assert begun.lines[1]["mean"] == pytest.approx(whole.lines[1]["mean"])
    for silo in whole.scores:
        for one, other in zip(whole.model(silo).parameters(), plain.model(silo).parameters(), strict=True):
            assert torch.allclose(one, other, atol=1e-4)
    assert whole.lines[2]["ending"] and whole.lines[2]["bytes_up"] == 0
    assert begun.lines[1]["bytes_up"] > 10 * plain.lines[1]["bytes_up"]
    assert "encrypted = true" in (tmp_path / "run" / "config.toml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("method", ENCRYPTED)
def test_eight_silos_with_half_a_million_parameters(method: str) -> None:
    """Less than a minute of a processor for a round, and cloud models that are those in plain to 1e-4."""
    assert measured.task("cnn").size == 582_026
    found = measured.blind(method, "cnn", 8)
    assert found["seconds"] < 60 and found["clouds"] < 1e-4


@pytest.mark.slow
def test_over_ray_models_are_those_of_the_run_in_plain() -> None:
    """Workers in processes of their own agree on a key by messages, as silos anywhere would."""
    hidden, plain = amity.run(_run(engine="ray", workers=2)), amity.run(_run(encrypted=False, engine="loop"))
    for silo in plain.scores:
        for one, other in zip(hidden.model(silo).parameters(), plain.model(silo).parameters(), strict=True):
            assert torch.allclose(one, other, atol=1e-4)
