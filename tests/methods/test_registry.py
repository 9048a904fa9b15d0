"""The table of methods: names, options, and what is said when they are wrong."""

import dataclasses
from typing import Any

import pytest

from amity.contract import InputError
from amity.methods import METHODS, build, entry_of, options_of, parse_option, settings_of
from amity.methods.fedavg import FedAvg
from amity.methods.fedprox import FedProx
from amity.methods.wrappers import FineTuned, LocalCopy

# A value that is not the default, as text and as it must be read.
OTHER: dict[str, tuple[str, str, Any]] = {
    "separate": ("init", "independent", "independent"),
    "fedavg": ("weighting", "uniform", "uniform"),
    "fedavg-local": ("weighting", "uniform", "uniform"),
    "fedavg-ft": ("ft_epochs", "3", 3),
    "fedprox": ("mu", "0.5", 0.5),
    "fedprox-ft": ("ft_lr", "1e-2", 0.01),
    "fedamp": ("sigma", "2.5", 2.5),
    "heurfedamp": ("sigma", "2.5", 2.5),
    "pfedatt": ("k", "3", 3),
    "fedacs": ("damping", "0.25", 0.25),
    "apple": ("budget", "2", 2),
}

# What a user typed, and a word of the rule that the answer must state.
REFUSED_VALUES = [
    ("fedprox", {"mu": -1.0}, ">= 0"),
    ("fedprox", {"mu": float("nan")}, ">= 0"),
    ("fedprox", {"mu": float("inf")}, ">= 0"),
    ("fedprox", {"mu": True}, "number"),
    ("fedprox", {"mu": "0.1"}, "number"),
    ("fedavg", {"weighting": "equal"}, "samples, uniform"),
    ("fedavg-ft", {"ft_epochs": -1}, ">= 0"),
    ("fedavg-ft", {"ft_epochs": 1.5}, "whole number"),
    ("fedprox-ft", {"ft_lr": 0.0}, "> 0"),
    ("apple", {"budget": 0}, ">= 1"),
    ("apple", {"penalty_rounds": 1.5}, "<= 1"),
    ("apple", {"scheduler": "linear"}, "cos, exp"),
]
REFUSED_TEXTS = [
    ("fedprox", "mu", "much", "number"),
    ("fedavg", "weighting", "equal", "samples, uniform"),
    ("fedavg-ft", "ft_epochs", "1.5", "whole number"),
    ("apple", "budget", "some", "all"),
]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_built_with_its_defaults(name: str) -> None:
    method = build(name)
    assert method.evaluates in ("held", "server") and method.solver.optimizer in method.optimizers
    assert {option["name"]: option["default"] for option in options_of(name)} == settings_of(method)


@pytest.mark.parametrize("name", OTHER)
def test_settings_make_the_same_method_again(name: str) -> None:
    key, text, value = OTHER[name]
    assert parse_option(name, key, text) == value and type(parse_option(name, key, text)) is type(value)
    method = build(name, {key: value})
    assert method != build(name) and settings_of(method)[key] == value
    assert build(name, settings_of(method)) == method


@pytest.mark.parametrize("name", METHODS)
def test_every_option_is_read_back_from_its_own_text(name: str) -> None:
    for key, value in settings_of(build(name)).items():
        assert parse_option(name, key, str(value)) == value
    assert build(name, settings_of(build(name))) == build(name)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_cannot_be_changed(name: str) -> None:
    method = build(name)
    for field in dataclasses.fields(method):  # type: ignore[arg-type]
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(method, field.name, getattr(method, field.name))


def test_wrapped_methods_share_their_options_out() -> None:
    method = build("fedprox-ft", {"mu": 0.5, "ft_epochs": 3, "weighting": "uniform"})
    assert method == FineTuned(FedProx(mu=0.5, weighting="uniform"), ft_epochs=3)
    assert build("fedavg-local") == LocalCopy(FedAvg()) and build("fedavg-ft") == FineTuned(FedAvg())
    assert [option["name"] for option in options_of("fedprox-ft")] == ["ft_epochs", "ft_lr", "mu", "weighting"]


@pytest.mark.parametrize("call", [entry_of, build, options_of, lambda name: parse_option(name, "mu", "1")])
def test_an_unknown_method_names_the_nearest(call: Any) -> None:
    with pytest.raises(InputError, match=r"^unknown method 'fedprx': did you mean fedprox or .*\?") as error:
        call("fedprx")
    assert "\n" not in str(error.value)


def test_an_unknown_method_far_from_all_lists_them() -> None:
    with pytest.raises(InputError, match="^unknown method 'zzz': known: .*separate") as error:
        build("zzz")
    assert all(name in str(error.value) for name in METHODS)


@pytest.mark.parametrize(
    ("name", "key", "nearest"),
    [("apple", "bugdet", "budget"), ("fedavg-ft", "ft_epoch", "ft_epochs"), ("fedprox-ft", "weightin", "weighting")],
)
def test_an_unknown_option_names_the_nearest(name: str, key: str, nearest: str) -> None:
    for call in (lambda: build(name, {key: 1}), lambda: parse_option(name, key, "1")):
        with pytest.raises(InputError, match=f"^unknown option of {name} '{key}': did you mean {nearest}") as error:
            call()
        assert "\n" not in str(error.value)


def test_an_option_of_another_method_is_unknown() -> None:
    with pytest.raises(InputError, match="^unknown option of fedavg 'mu'"):
        build("fedavg", {"mu": 0.1})


def test_what_a_wrapper_wraps_is_not_an_option() -> None:
    with pytest.raises(InputError, match="^unknown option of fedavg-ft 'base'"):
        build("fedavg-ft", {"base": FedProx()})


def assert_says_rule_got_and_what_to_do(message: str, key: str, rule: str, got: str) -> None:
    """One line: "<who> needs <key> to be <rule>, got <value>: <what to do>"."""
    assert "\n" not in message
    before, _, after = message.partition(", got ")
    assert f" needs {key} to be " in before and rule in before
    assert after.startswith(f"{got}: ") and len(after) > len(f"{got}: ")


@pytest.mark.parametrize(("name", "settings", "rule"), REFUSED_VALUES)
def test_a_bad_value_gets_the_rule_what_was_received_and_what_to_do(
    name: str, settings: dict[str, Any], rule: str
) -> None:
    [(key, value)] = settings.items()
    with pytest.raises(InputError) as error:
        build(name, settings)
    assert_says_rule_got_and_what_to_do(str(error.value), key, rule, repr(value))


@pytest.mark.parametrize(("name", "key", "text", "rule"), REFUSED_TEXTS)
def test_a_bad_text_gets_the_rule_what_was_received_and_what_to_do(name: str, key: str, text: str, rule: str) -> None:
    with pytest.raises(InputError) as error:
        parse_option(name, key, text)
    assert_says_rule_got_and_what_to_do(str(error.value), key, rule, repr(text))
