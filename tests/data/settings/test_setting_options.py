"""Settings with options in their name: what is read, what is recorded, what is refused."""

from typing import Literal

import pytest
from data.sources import Numbered
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from amity.contract import InputError
from amity.data import SETTINGS, deal
from amity.data.settings.dirichlet import Dirichlet
from amity.data.settings.registry import options_of, read, written


@pytest.mark.parametrize("name", SETTINGS)
def test_a_name_alone_is_the_setting_at_its_defaults(name: str) -> None:
    assert read(name) == (name, SETTINGS[name].make())
    assert all(option["help"] and option["rule"] for option in options_of(name))


def test_options_stand_behind_a_colon_in_any_order() -> None:
    expected = Dirichlet(alpha=0.1, axis="client", min_size=3)
    assert read("dirichlet:alpha=0.1,axis=client,min_size=3") == ("dirichlet", expected)
    assert read(" dirichlet: min_size = 3 , axis=Client,alpha=.1 ") == ("dirichlet", expected)


@hypothesis_settings(max_examples=50)
@given(
    alpha=st.floats(1e-6, 1e6),
    axis=st.sampled_from(["class", "client"]),
    least=st.integers(1, 10**6),
    test=st.sampled_from(["shares", "holdout"]),
)
def test_what_is_recorded_is_read_again(
    alpha: float, axis: Literal["class", "client"], least: int, test: Literal["shares", "holdout"]
) -> None:
    rule = Dirichlet(alpha, axis, least, test)
    text = written("dirichlet", rule)
    assert read(text) == ("dirichlet", rule)
    assert " " not in text


def test_every_option_is_recorded(numbered: Numbered) -> None:
    source = numbered([60] * 4, [30] * 4)
    named = {name: deal(source, name, 3, seed=0).setting for name in SETTINGS if name != "natural"}
    assert named["iid"] == "iid"
    for name, text in named.items():
        assert read(text) == read(name)
        assert [part.split("=")[0] for part in text.partition(":")[2].split(",") if part] == [
            option["name"] for option in options_of(name)
        ]
    assert named["pathological-apple"] == "pathological-apple:allow_duplicate=false,share=normalised"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dirichlt:alpha=1", "unknown setting 'dirichlt': did you mean dirichlet"),
        ("dirichlet:aplha=1", "unknown option of dirichlet 'aplha': did you mean alpha"),
        ("dirichlet:alpha", "NAME:key=value"),
        ("dirichlet:", "NAME:key=value"),
        ("dirichlet:alpha=1,", "NAME:key=value"),
        ("dirichlet:=1", "NAME:key=value"),
        ("dirichlet:alpha=1,alpha=2", "alpha twice"),
        ("dirichlet:alpha=few", "alpha to be a number >= 1e-06, got 'few'"),
        ("dirichlet:alpha=0", "alpha to be a number >= 1e-06, got 0"),
        ("dirichlet:alpha=inf", "alpha to be a number >= 1e-06"),
        ("many:alpha=5e-324", "alpha to be a number >= 1e-06"),
        ("dirichlet:axis=row", "axis to be one of class, client"),
        ("dirichlet:min_size=0", "min_size to be a whole number >= 1"),
        ("scarce:samples=2.5", "samples to be a whole number"),
        ("pathological:scheme=mixed", "scheme to be one of pure, shards"),
        ("practical:draw=even", "draw to be one of quota, random"),
        ("pathological-apple:share=half", "pathological-apple needs share to be one of normalised, free"),
        ("iid:alpha=1", "iid has no options, got 'alpha'"),
    ],
)
def test_refusals_are_one_line_with_a_remedy(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(text)
    assert "\n" not in str(caught.value) and ": " in str(caught.value)


@pytest.mark.parametrize(("name", "clients", "share"), [("iid", 20, 1), ("shards", 12, 1), ("many", 500, 0.1)])
def test_a_setting_proposes_how_many_silos_there_are_and_take_part(
    numbered: Numbered, name: str, clients: int, share: float
) -> None:
    silos = deal(numbered([2000] * 4, [300] * 4), name, None, seed=0)
    assert (len(silos.silos), silos.participation) == (clients, share)
