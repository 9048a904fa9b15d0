"""Dirichlet settings: the distribution itself, its counts, what happens where data are short."""

import pytest
import torch
from data.sources import Numbered
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor

from amity.contract import InputError
from amity.data import Silos, deal
from amity.data.settings.dirichlet import dirichlet


def held(silos: Silos, part: str = "train") -> Tensor:
    """Counts per silo and class.  # [m, classes]"""
    return torch.stack([getattr(silo, part).y.bincount(minlength=silos.classes) for silo in silos.silos])


def positions(silos: Silos, part: str) -> list[list[int]]:
    return [getattr(silo, part).x.flatten().long().tolist() for silo in silos.silos]


@pytest.mark.parametrize("alpha", [0.1, 0.5, 5.0])
def test_shares_have_the_moments_of_the_distribution(alpha: float) -> None:
    m, draws = 6, 40_000
    shares = dirichlet(alpha, m, draws, torch.Generator().manual_seed(0))
    torch.testing.assert_close(shares.sum(0), torch.ones(draws, dtype=torch.float64))
    variance = (1 / m) * (1 - 1 / m) / (m * alpha + 1)
    assert (shares.mean(1) - 1 / m).abs().max() < 5 * (variance / draws) ** 0.5
    assert ((shares - 1 / m).square().mean(1) / variance - 1).abs().max() < 0.05


@pytest.mark.parametrize("alpha", [1e-300, 1e-6, 1e6, 1e300])
def test_shares_stay_shares_at_the_extremes(alpha: float) -> None:
    shares = dirichlet(alpha, 7, 500, torch.Generator().manual_seed(1))
    torch.testing.assert_close(shares.sum(0), torch.ones(500, dtype=torch.float64))
    top = shares.max(0).values
    if alpha < 1:  # one takes all, and everybody is that one at times
        assert (top > 1 - 1e-9).double().mean() > 0.99 and len(shares.argmax(0).unique()) == 7
    else:
        assert top.max() < 1 / 7 + 0.01


@hypothesis_settings(max_examples=60)
@given(
    stock=st.lists(st.tuples(st.integers(0, 80), st.integers(0, 40)), min_size=1, max_size=8),
    clients=st.integers(1, 25),
    alpha=st.sampled_from([0.01, 0.1, 0.5, 1.0, 10.0]),
    axis=st.sampled_from(["class", "client"]),
    least=st.integers(1, 12),
    test_from=st.sampled_from(["shares", "holdout"]),
    seed=st.integers(0, 2**31),
)
def test_all_is_dealt_and_nobody_has_less_than_the_least(
    numbered: Numbered,
    stock: list[tuple[int, int]],
    clients: int,
    alpha: float,
    axis: str,
    least: int,
    test_from: str,
    seed: int,
) -> None:
    train, test = (list(part) for part in zip(*stock, strict=True))
    name = f"dirichlet:alpha={alpha},axis={axis},min_size={least},test_from={test_from}"
    try:
        silos = deal(numbered(train, test), name, clients, seed)
    except InputError as error:
        assert "serves" in str(error) and "\n" not in str(error)
        each = max(least, 2) if test_from == "holdout" else least
        known = sum(tests for trains, tests in stock if trains)
        assert sum(train) < each * clients or (test_from == "shares" and known < clients)
        return
    trained, tested = (positions(silos, part) for part in ("train", "test"))
    dealt = [p for part in trained for p in part]
    if test_from == "holdout":
        sizes = [len(part) + len(out) for part, out in zip(trained, tested, strict=True)]
        dealt += [p for part in tested for p in part]  # both from the training arrays
        assert all(len(out) == max(1, round(size / 4)) for out, size in zip(tested, sizes, strict=True))
    else:
        sizes = [len(part) for part in trained]
        used = [p for part in tested for p in part]
        assert len(used) == len(set(used)) == sum(tests for trains, tests in stock if trains)
        assert min(map(len, tested)) >= 1
    assert sorted(dealt) == list(range(sum(train)))
    assert min(sizes) >= (least if axis == "class" else sum(train) // clients)
    if axis == "client":
        assert max(sizes) - min(sizes) <= 1


def test_test_examples_follow_the_shares_in_training(numbered: Numbered) -> None:
    silos = deal(numbered([4000, 1000, 500], [900, 800, 70]), "dirichlet", 10, seed=0)
    shares = held(silos) / torch.tensor([4000, 1000, 500])
    assert silos.notes == ()
    assert (held(silos, "test") - shares * torch.tensor([900, 800, 70])).abs().max() <= 1


def test_alpha_goes_from_one_class_per_silo_to_equal_parts(numbered: Numbered) -> None:
    source = numbered([1000] * 10, [100] * 10)

    def distance(alpha: float, axis: str) -> float:
        counts = held(deal(source, f"dirichlet:alpha={alpha},axis={axis}", 10, seed=0)).double()
        return (counts / counts.sum(1, keepdim=True) - 0.1).abs().sum(1).mean().item()

    for axis in ("class", "client"):
        far = [distance(alpha, axis) for alpha in (0.01, 0.1, 1, 10, 1000)]
        assert far == sorted(far, reverse=True) and far[0] > 1.2 and far[-1] < 0.1


def test_silos_that_came_away_with_too_little_get_some_and_the_notes_say_so(numbered: Numbered) -> None:
    source = numbered([300] * 4, [50] * 4)
    silos = deal(source, "dirichlet:alpha=1e-6,min_size=20", 30, seed=0)
    assert min(silos.sizes) == 20 and sum(silos.sizes) == 1200
    (note,) = [note for note in silos.notes if "training" in note]
    assert note.startswith("100 draws left a silo with fewer than 20: ")
    moved = int(note.split(": ")[1].split()[0])
    # With so small an alpha a class goes to one silo whole: at most 4 silos had any, all others got their 20.
    assert 26 * 20 <= moved <= 29 * 20


def test_holdout_leaves_the_test_set_alone(numbered: Numbered) -> None:
    source = numbered([100] * 3, [1, 0, 0])
    silos = deal(source, "dirichlet:alpha=5,test_from=holdout", 4, seed=0)
    assert sum(silos.sizes) + sum(len(silo.test.y) for silo in silos.silos) == 300
    for silo in silos.silos:
        assert not set(silo.train.x.flatten().tolist()) & set(silo.test.x.flatten().tolist())


@pytest.mark.parametrize(("text", "samples"), [("scarce", 50), ("scarce:samples=7,alpha=0.1", 7)])
def test_scarce_silos_have_the_same_few_examples_and_whole_test_parts(
    numbered: Numbered, text: str, samples: int
) -> None:
    silos = deal(numbered([600] * 5, [100] * 5), text, 20, seed=0)
    assert silos.sizes == (samples,) * 20
    tested = held(silos, "test")
    assert tested.sum() == 500  # by the shares before the cut
    assert len(set(tested.sum(1).tolist())) > 5


def test_scarce_keeps_the_mix(numbered: Numbered) -> None:
    silos = deal(numbered([6000] * 3, [3000] * 3), "scarce:samples=300,alpha=1", 6, seed=0)
    mix, true = (counts / counts.sum(1, keepdim=True) for counts in (held(silos).double(), held(silos, "test")))
    assert (mix - true).abs().max() < 5 * 0.5 / 300**0.5  # five standard deviations at most


def test_five_hundred_silos_of_sixty_two_classes(numbered: Numbered) -> None:
    silos = deal(numbered([200] * 62, [40] * 62), "many:alpha=0.1", 500, seed=0)
    assert sum(silos.sizes) == 62 * 200 and min(silos.sizes) >= 10
    assert min(len(silo.test.y) for silo in silos.silos) >= 1
    assert {silo.group for silo in silos.silos} == {None}
