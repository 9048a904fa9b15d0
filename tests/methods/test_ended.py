"""Endings: nothing changes before them, every silo has one, and whoever is better off alone is told so."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from small import quickly, randn, silo

import amity
from amity.contract import Silo
from amity.learn.ending import End
from amity.methods import METHODS
from amity.methods.ended import DOUBT, Ended, EndedRelational, clearly_better, with_ending
from amity.resolve import alone_of, fair_references

LIKE: dict[str, Any] = {"rounds": 2, "epochs": 1, "batch": 4, "val_fraction": 0.25}


def federation(count: int = 3, size: int = 24) -> Any:
    """A few silos of one rule."""
    at = {name: silo(name, size, tests=8) for name in ("ash", "birch", "cedar", "elm")[:count]}
    return amity.own_silos({name: _arrays(one) for name, one in at.items()})


def _arrays(one: Silo) -> tuple[Any, Any, Any, Any]:
    (x, y), (test_x, test_y) = one.train, one.test
    return x.float().numpy(), y.numpy(), test_x.float().numpy(), test_y.numpy()


def run(method: str, silos: Any = None, **options: Any) -> Any:
    return amity.run(amity.Run(method, model="mlr", **{"engine": "loop", **LIKE, **options}), silos or federation())


@pytest.mark.parametrize("method", quickly(name for name in METHODS if not METHODS[name].package))
def test_before_its_ending_a_run_is_the_one_without_it(method: str) -> None:
    before, after = run(method, ending="none"), run(method, ending="auto")
    assert len(before.lines) == 2 and len(after.lines) == 3
    for a, b in zip(before.lines, after.lines, strict=False):
        kept = ("mean", "loss", "took_part")
        assert [a[key] for key in kept] == [b[key] for key in kept]
        more, asked = len(a["took_part"]) if method == "accord" else 0, a is before.lines[-1]  # it rehearses its ending
        assert b["bytes_up"] - a["bytes_up"] == 3 * 4 * more and b["bytes_down"] - a["bytes_down"] == asked * more
    last = after.lines[-1]
    assert last["ending"] and last["bytes_up"] == 0 and last["val"] is None
    assert after.summary["chosen_by"] == "ending" and after.round == 3


@pytest.mark.parametrize("method", quickly(["fedavg", "apple", "ditto", "accord", "separate"], ["apple", "accord"]))
@pytest.mark.parametrize("safe", [False, True])
def test_engines_agree_to_the_last_bit(method: str, safe: bool) -> None:
    results = [run(method, ending="auto", safe=safe, engine=engine) for engine in ("loop", "memory")]
    for name in ("ash", "birch", "cedar"):
        one, other = (result.model(name).state_dict() for result in results)
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_nobody_is_left_out_of_an_ending() -> None:
    result = run("fedamp", ending=2, participation=0.4, drop=0.3)
    assert result.lines[-1]["took_part"] == ["ash", "birch", "cedar"]
    assert set(result.lines[-1]["holds"].values()) == {"together, 2 epochs"}


def test_a_given_length_goes_on_from_the_personal_model() -> None:
    apart, together = run("fedamp", ending="none", rounds=3), run("fedamp", ending=3)
    assert apart.lines[1]["mean"] == together.lines[1]["mean"]
    assert not torch.equal(_weights(apart), _weights(together))
    assert run("fedamp", ending=3).scores == together.scores


def test_an_ending_survives_an_interruption(tmp_path: Path) -> None:
    whole = run("accord", ending="auto", safe=True)
    options = {**LIKE, "model": "mlr", "engine": "loop", "ending": "auto", "safe": True}

    def stop(event: Any) -> None:
        if event.what == "recorded" and event.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        amity.run(amity.Run("accord", **options), federation(), out=tmp_path / "run", listen=stop)
    result = amity.run(amity.Run("accord", **options), federation(), out=tmp_path / "run", resume=True)
    assert len(result.lines) == 3 and torch.equal(_weights(result), _weights(whole))


def test_after_its_ending_a_run_cannot_grow(tmp_path: Path) -> None:
    first = amity.Run("fedavg", model="mlr", ending=1, **LIKE)
    amity.run(first, federation(), out=tmp_path / "run")
    with pytest.raises(amity.InputError, match="has had its ending after round 2"):
        amity.run(replace(first, rounds=5), federation(), out=tmp_path / "run", resume=True)
    again = amity.run(first, federation(), out=tmp_path / "run", resume=True)
    assert len(again.lines) == 3


def test_what_is_delivered_is_what_is_scored(tmp_path: Path) -> None:
    silos = federation()
    amity.run(amity.Run("accord", model="mlr", **LIKE), silos, out=tmp_path / "run")
    result = amity.read_run(tmp_path / "run")
    for one in silos.silos:
        right = result.model(one.name)(one.test.x).argmax(1) == one.test.y
        assert 100 * right.float().mean().item() == pytest.approx(result.scores[one.name])


def test_a_silo_that_is_better_off_alone_goes_alone() -> None:
    """Its labels are the others' turned round, and there is no ending in which to learn them again."""
    names = ("ash", "birch", "cedar", "elm")
    at = {name: silo(name, 120, tests=40) for name in names}
    parts = {name: _arrays(one) for name, one in at.items()}
    x, y, test_x, test_y = parts["elm"]
    parts["elm"] = x, (y + 1) % 3, test_x, (test_y + 1) % 3
    options: dict[str, Any] = {"rounds": 8, "epochs": 2, "lr": 0.01}
    careless = run("fedavg", amity.own_silos(parts), **options)
    safe = run("fedavg", amity.own_silos(parts), safe=True, ending="none", **options)
    assert safe.lines[-1]["holds"]["elm"].startswith("alone")
    assert careless.scores["elm"] < 40 < 70 < safe.scores["elm"]


def test_who_trains_alone_beside_goes_to_the_end_with_both_models() -> None:
    """Unless it says otherwise: the model that has trained less would lose for that."""
    assert run("fedamp", safe=True).scores == run("fedamp", safe=True, ending="auto").scores
    apart = run("fedamp", safe=True, ending="none")
    assert set(run("fedamp", safe=True).lines[-1]["holds"].values()) != {"together, 0 epochs"}
    assert {words for words in apart.lines[-1]["holds"].values() if "together" in words} <= {"together, 0 epochs"}


def test_clearly_better_is_students_test() -> None:
    for seed in range(40):
        d = 0.3 * (seed % 5) + randn(12, seed=seed)
        other, end = End({}, 0, torch.zeros(12)), End({}, 0, d)
        p = stats.ttest_1samp(d.numpy(), 0, alternative="greater").pvalue
        assert clearly_better(other, end) == (p < DOUBT)


def test_broken_models_and_single_examples_decide_nothing_by_accident() -> None:
    fine, broken = End({}, 0, torch.ones(3)), End({}, 0, torch.tensor([1.0, float("nan"), 1.0]))
    assert clearly_better(fine, broken) and not clearly_better(broken, fine) and not clearly_better(broken, broken)
    assert not clearly_better(End({}, 0, torch.zeros(1)), End({}, 0, torch.ones(1)))
    assert clearly_better(End({}, 0, torch.zeros(4)), End({}, 0, torch.ones(4)))


def test_relations_stay_readable() -> None:
    from amity.methods import build

    assert isinstance(with_ending(build("apple"), 2, 1, "auto", False), EndedRelational)
    assert type(with_ending(build("fedamp"), 2, 1, "auto", False)) is Ended
    assert with_ending(method := build("fedamp"), 2, 1, "none", False) is method
    assert run("apple", ending="auto").weights


def test_who_compares_gives_the_references_an_ending_too() -> None:
    accord, alone = fair_references([amity.Run("accord"), amity.Run("separate")])
    assert (accord.ending, alone.ending) == ("default", "auto")
    assert fair_references([amity.Run("fedamp"), amity.Run("separate")])[1].ending == "default"
    assert alone_of(amity.Run("accord")).ending == "auto"
    assert alone_of(amity.Run("fedamp", safe=True)).ending == "auto"
    assert alone_of(amity.Run("fedamp")).ending == "none"


def test_pooled_data_end_at_their_own_silos() -> None:
    """Each silo goes on with its own examples, not with those that lie at the first one."""
    result = run("pooled", ending=3, rounds=1)
    own = {key: result.model(key)[1].weight for key in ("ash", "birch", "cedar")}
    assert not torch.equal(own["birch"], own["cedar"])


def _weights(result: Any) -> torch.Tensor:
    return torch.cat([value.flatten() for value in result.model("ash").state_dict().values()])
