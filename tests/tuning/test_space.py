"""Search spaces: what options declare, what users give, and what is refused."""

from __future__ import annotations

import pytest

from amity import Run
from amity.config.options import fields_of
from amity.errors import InputError
from amity.methods import METHODS, known_options
from amity.tuning.space import Choices, Range, check_dimension, default_space, parse_space, searchable, with_values


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_space_whose_ends_it_takes(method: str) -> None:
    run = Run(method)
    space = default_space(run)
    assert {"lr", "epochs"} <= set(space)
    for name, dimension in space.items():
        check_dimension(run, name, dimension)


def test_methods_with_a_strength_of_attention_or_attraction_search_it() -> None:
    for method, option in [("fedamp", "sigma"), ("ditto", "attraction"), ("fedprox", "mu"), ("fedacs", "p")]:
        assert f"set.{option}" in default_space(Run(method))
        assert fields_of(known_options(method)[option])[option].metadata["search"]


def test_the_rate_is_searched_around_the_methods_own() -> None:
    assert default_space(Run("fedavg"))["lr"] == Range(1e-4, 1e-2, log=True)  # Adam, 0.001
    assert default_space(Run("scaffold"))["lr"] == Range(1e-3, 1e-1, log=True)  # SGD, 0.01


def test_what_somebody_has_set_is_not_searched() -> None:
    space = default_space(Run("fedamp", lr=0.5, settings={"sigma": 3.0}), {"epochs"})
    assert set(space) == {"set.alpha"}
    assert set(default_space(Run("fedavg", epochs=2))) == {"lr"}


def test_texts_become_ranges_and_choices() -> None:
    texts = ["lr=0.001:0.1:log", "epochs=1:4", "sigma=1,10,100", "optimizer=adam,sgd", "self_weight=softmax,0.5"]
    assert parse_space(texts, Run("fedamp")) == {
        "lr": Range(0.001, 0.1, log=True),
        "epochs": Range(1, 4, whole=True),
        "set.sigma": Choices((1.0, 10.0, 100.0)),
        "optimizer": Choices(("adam", "sgd")),
        "set.self_weight": Choices(("softmax", 0.5)),
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lr", "'lr' is not KEY=LOW:HIGH"),
        ("lr=", "'lr=' is not KEY=LOW:HIGH"),
        ("sigm=1:2", "sigm is no option of fedamp: did you mean sigma?"),
        ("seed=1:2", "seed cannot be searched: it is the same in all trials"),
        ("per_silo=10,20", "per_silo cannot be searched"),
        ("dp_epsilon=1:8", "dp_epsilon cannot be searched: trials train many times on the same examples"),
        ("dp_noise=1,2", "dp_noise cannot be searched: trials train many times"),
        ("model=mlp,nope", "unknown model 'nope': known: auto,"),
        ("rounds=1:2", "rounds cannot be searched"),
        ("workers=1,2", "workers cannot be searched"),
        ("lr=2:1", "lr=2:1 needs LOW < HIGH"),
        ("lr=1:inf", "two finite numbers"),
        ("lr=a:b", "lr=a:b needs two numbers"),
        ("lr=1:2:lin", "may end in :log, and in nothing else"),
        ("set=1", "set is no option"),
        ("attraction=0:1:log", "needs LOW > 0, as it is :log"),
        ("epochs=0.5:2", "epochs=0.5:2 needs whole numbers"),
        ("mode=1:2", "mode is no number: list its values"),
        ("mode=theory,theory", "has a value twice"),
        ("mode=theory,none", "needs mode to be one of normalised, theory, got 'none'"),
        ("sigma=-1:2", "needs sigma to be a number > 0, got -1.0"),
        ("optimizer=adam,lion", "needs optimizer to be one of auto, adam, sgd, got 'lion'"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_a_reason(text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_space([text], Run("fedamp"))
    assert words in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["seed", "per_silo", "dp_epsilon", "val_fraction"])
def test_python_searches_no_more_than_the_command(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} cannot be searched"):
        check_dimension(Run("fedamp"), name, Range(0.1, 0.2))


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InputError) as refused:
        parse_space(["lr=2:1", "sigm=3", "lr=0.1:1", "lr=0.2:1"], Run("fedamp"))
    assert str(refused.value).startswith("--search cannot be used: lr=2:1 needs LOW < HIGH")
    assert "sigm is no option" in str(refused.value) and "lr is given more than once" in str(refused.value)


def test_nothing_that_deals_data_or_changes_no_result_can_be_searched() -> None:
    known = searchable("fedamp")
    assert not {"seed", "data", "clients", "workers", "engine", "val_fraction", "rounds"} & set(known)
    assert known["sigma"] == "set.sigma" and known["lr"] == "lr" and known["model"] == "model"


def test_a_run_with_values_is_that_run_with_them() -> None:
    run = Run("fedamp", rounds=3, settings={"sigma": 1.0})
    assert with_values(run, {"lr": 0.5, "set.alpha": 2.0}) == Run(
        "fedamp", rounds=3, lr=0.5, settings={"sigma": 1.0, "alpha": 2.0}
    )
