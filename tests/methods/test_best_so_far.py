"""The best common model so far: found by what silos say of held-out examples, and by no silo alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import linear, run, same, silo, silos, task
from torch import Tensor

from amity.contract import MODEL, Data, InputError, Model, Silo, Solver, State, Turn
from amity.data import Silos
from amity.federation.membership import of_this_method
from amity.federation.plan import federation_of
from amity.methods._best_so_far import (
    HELD_OUT,
    WORST,
    best_so_far,
    judged,
    judged_kind,
    nothing_judged,
    to_go_on_from,
    worse,
)
from amity.methods.accord import Accord
from amity.methods.pooled import Pooled


def model(value: float) -> Model:
    return {"params": torch.tensor([value]), "buffers": torch.zeros(0), "counts": torch.zeros(0, dtype=torch.int64)}


def after(*said: list[float], who: list[list[int]] | None = None) -> State:
    """The server after rounds in which silos have said this of w^0 = 0, w^1 = 1, w^2 = 2, ..."""
    fed = federation_of(silos(3), 9, 1)
    server: State = {**model(0.0), **nothing_judged(model(0.0), fed)}
    for round, losses in enumerate(said, 1):
        asked = torch.tensor(who[round - 1] if who else [0, 1, 2])
        server |= best_so_far(server, asked, {HELD_OUT: torch.tensor(losses)}, round)
        server |= model(float(round))
    return server


def found(server: State, rounds: int) -> float:
    return to_go_on_from(server, rounds + 1)["params"].item()


def test_a_path_that_turns_is_followed_back() -> None:
    # w^0, w^1, w^2, w^3 have the summed losses 9, 6, 7.5, 8: w^1 is the best, and w^4 is not known
    said = [3.0, 3.0, 3.0], [2.0, 2.0, 2.0], [2.5, 2.5, 2.5], [2.5, 2.5, 3.0]
    assert found(after(*said), rounds=4) == 1.0
    assert found(after(*said[:2]), rounds=2) == 2.0  # w^1 is better than w^0: w^2, which nobody has judged, goes on


def test_one_silo_does_not_decide() -> None:
    """Two of three get better with w^1, by 1 each; the third says that it gets worse, by a million."""
    assert found(after([3.0, 3.0, 3.0], [2.0, 2.0, 1e6], [9.0, 9.0, 1e6]), rounds=3) == 1.0
    assert found(after([3.0, 3.0, 3.0], [9.0, 9.0, 0.0], [9.0, 9.0, 0.0]), rounds=3) == 0.0


def test_silos_that_were_away_are_compared_by_what_they_said_last() -> None:
    # silo 2 is there in round 1 only; of silo 0 in round 3 the loss before is that of w^0, since it was away in round 2
    said = [3.0, 3.0, 3.0], [2.0], [4.0, 4.0]
    assert found(after(*said, who=[[0, 1, 2], [1], [0, 1]]), rounds=3) == 1.0
    assert found(after([3.0], [5.0], who=[[0], [1]]), rounds=3) == 1.0  # nobody has judged both: the later one


def test_without_held_out_examples_it_is_the_model_of_the_last_round() -> None:
    """Everybody says 0 of every model: none is worse than another."""
    at = silos()
    method = Pooled()
    reports = run("pooled", at=at, on=task(linear), rounds=3)
    down = method.last_download(reports[-1].server, torch.arange(5), 4, None)  # type: ignore[arg-type]
    assert same(down.to(0), reports[-1].personal(0))


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=9), st.floats(-1e30, 1e30))
def test_a_clear_majority_is_not_outvoted(differences: list[float], lie: float) -> None:
    """Where all but one agree, and by as much, that one can say what it likes."""
    same_sign = torch.tensor([abs(value) + 1.0 for value in differences], dtype=torch.float64)
    middle = torch.full_like(same_sign, same_sign.median().item())
    assert worse(torch.cat([middle, torch.tensor([lie], dtype=torch.float64)]))
    assert not worse(torch.cat([-middle, torch.tensor([lie], dtype=torch.float64)]))


def held_out(one: Silo) -> Silo:
    """The same silo with a third of its training examples held out."""
    (x, y), third = one.train, len(one.train.y) // 3
    return one._replace(train=type(one.train)(x[third:], y[third:]), val=type(one.train)(x[:third], y[:third]))


@pytest.mark.parametrize(("method", "rate"), [("pooled", 0.3), ("accord", 3.0)])
def test_a_run_ends_with_the_best_model_of_its_path(method: str, rate: float) -> None:
    """A rate that is too large: the held-out losses of all silos, computed here, say which model that is."""
    at = [held_out(silo(f"s{i}", 12, seed=i)) for i in range(5)]
    at = list(Silos(tuple(at), 3, "own", "own").pooled().silos) if method == "pooled" else at
    on, made = task(linear), Pooled() if method == "pooled" else Accord()
    fed = federation_of(at, 8, 1)
    path: list[Model] = [on.initial(fed)]
    reports = run(method, at=at, on=on, rounds=8, solver=Solver("sgd", rate, batch=4))
    path += [{key: report.server[key] for key in MODEL} for report in reports]
    losses = torch.tensor([[on.evaluate(one, each.val).loss for each in at if each.val] for one in path[:-1]])
    best = 0
    for place in range(1, len(path) - 1):
        if limited(losses[place] - losses[best]) <= 0:
            best = place
    best = len(path) - 1 if best == len(path) - 2 else best
    down = made.last_download(reports[-1].server, torch.arange(5), 9, None)  # type: ignore[arg-type]
    assert same(down.to(0), path[best])
    if method == "pooled":
        assert best not in (0, len(path) - 1)  # or this would show nothing
    else:
        assert any(same(path[place], path[place + 2]) for place in range(len(path) - 2))  # it goes back by itself


def limited(d: Tensor) -> float:
    c = d.abs().quantile(0.5)
    return float(torch.minimum(torch.maximum(d, -c), c).sum())


def test_a_server_that_was_saved_without_it_is_refused_in_one_line() -> None:
    """As earlier versions have saved it: the method cannot go on from there."""
    on, fed = task(linear), federation_of(silos(3), 4, 1)
    whole = Pooled().init_server(on, fed)
    assert of_this_method(Pooled(), on, fed, whole) is whole
    with pytest.raises(InputError, match="best/losses, .* is missing: another version"):
        of_this_method(Pooled(), on, fed, {key: value for key, value in whole.items() if not key.startswith("best/")})


def test_a_broken_model_is_no_broken_upload() -> None:
    """Its loss is not finite, and is said as a number all the same."""
    on, one = task(linear), held_out(silo("ash", 12))
    fed = federation_of([one], 1, 1)
    broken = {**on.initial(fed), "params": torch.full_like(on.initial(fed)["params"], torch.inf)}
    assert one.val is not None
    turn = Turn(1, 1, Solver("sgd", 0.1), Data(one.train, one.val), lambda role, epoch: 0)
    said = judged(on, broken, turn)[HELD_OUT]
    assert said.item() == pytest.approx(WORST)
    assert said.dtype == judged_kind(broken)[HELD_OUT].dtype and said.shape == ()
