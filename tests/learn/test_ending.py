"""Going on alone: the path is training's own, its length is found on held-out examples, averages are by likelihood."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import batchnorm, linear, mlp, own, quadratic, randn, same, silo, task, turn_of

from amity.contract import Model, Solver, Split, Turn
from amity.federation.plan import federation_of
from amity.learn.ending import _Average, enough, find_end, go_on, likelier, log_odds, path, whole
from amity.learn.train import train

ADAM = Solver("adam", 0.01, batch=4)


def turn_with(val: int = 6, solver: Solver = ADAM, epochs: int = 1) -> Turn:
    """The turn of a silo of 20 examples, some of them held out."""
    ash = silo("ash", 20)
    (x, y), held = ash.train, Split(ash.train.x[:val], ash.train.y[:val])
    at = [ash._replace(train=Split(x[val:], y[val:]), val=held if val else None)]
    return turn_of(federation_of(at, 1, 0), at, 0, solver, epochs=epochs)


@pytest.mark.parametrize("make", [linear, mlp, batchnorm])
@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_the_path_is_the_one_of_local_training(make: Any, epochs: int) -> None:
    on, turn = task(make), turn_with(epochs=epochs)
    start = on.init(torch.Generator().manual_seed(3))
    models = list(path(on, start, turn, epochs, "train"))
    assert len(models) == epochs + 1 and same(models[0], start)
    assert same(models[-1], train(on, start, turn))


def test_looking_at_the_held_out_examples_changes_nothing_of_the_path() -> None:
    on, turn = task(batchnorm), turn_with()
    start = on.init(torch.Generator().manual_seed(3))
    assert turn.data.val is not None
    looked = []
    for model in path(on, start, turn, 4, "train"):
        on.example_losses(model, turn.data.val)
        looked.append(model)
    assert all(same(a, b) for a, b in zip(looked, path(on, start, turn, 4, "train"), strict=True))


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-2000, 2000)), min_size=1, max_size=8))
def test_an_average_is_by_the_odds_however_large_they_are(rows: list[tuple[float, float]]) -> None:
    found = _Average()
    for place, (value, odds) in enumerate(rows):
        found.add(_model(value, place), odds)
    values, logs = (np.array(column) for column in zip(*rows, strict=True))
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    assert found.model["params"].item() == pytest.approx(values @ shares, abs=1e-9)
    assert found.mean_place == pytest.approx(np.arange(len(rows)) @ shares, abs=1e-9)
    assert found.model["counts"].item() == len(rows) - 1


def test_a_model_without_odds_counts_only_while_there_is_no_other() -> None:
    found = _Average()
    found.add(_model(7.0), -math.inf)
    assert found.model["params"].item() == 7.0
    found.add(_model(2.0), -3.0)
    found.add(_model(9.0), -math.inf)
    assert found.model["params"].item() == 2.0


def test_odds_are_the_likelihood_of_the_held_out_examples() -> None:
    # Classes: exp(-N L). Quantities: the normal likelihood of N errors with mean square L, at its likeliest variance L:
    # (2 pi L)^(-N/2) exp(-N/2), in proportion to L^(-N/2).
    assert log_odds(0.5, 10, classes=3) - log_odds(0.7, 10, classes=3) == pytest.approx(2.0)
    normal = [-5 * math.log(2 * math.pi * loss) - 5 for loss in (0.5, 0.7)]
    found = [log_odds(loss, 10, classes=0) for loss in (0.5, 0.7)]
    assert found[0] - found[1] == pytest.approx(normal[0] - normal[1])
    assert log_odds(math.nan, 10, classes=3) == -math.inf and math.isfinite(log_odds(0.0, 10, classes=0))


def test_a_second_model_needs_evidence() -> None:
    def found(first: float, second: float, examples: int, classes: int) -> bool:
        return bool(likelier(torch.tensor(first), torch.tensor(second), examples, classes))

    assert found(5.0, 3.9, 9, classes=3) and not found(5.0, 4.1, 9, classes=3) and not found(3.9, 5.0, 9, classes=3)
    # Quantities: N/2 log(first / second) > 1, here with N = 10, so that the ratio must be above exp(0.2) = 1.2214.
    assert found(1.23, 1.0, 10, classes=0) and not found(1.22, 1.0, 10, classes=0)


def test_it_is_enough_when_nothing_has_improved_for_as_long_again() -> None:
    falling = [1.0 - 0.01 * n for n in range(30)]
    assert not any(enough(falling[: n + 1]) for n in range(30))
    best = 12
    losses = [*falling[: best + 1], *(2.0 for _ in range(100))]
    assert next(n for n in range(len(losses)) if enough(losses[: n + 1])) == 2 * best + 10
    assert enough([1.0, math.nan])


def test_a_found_end_is_the_average_of_the_path_on_all_examples() -> None:
    on, turn = task(mlp), turn_with()
    judge = turn.data.val
    assert judge is not None
    start = on.init(torch.Generator().manual_seed(3))
    end = find_end(on, start, turn, limit=5)
    first = list(path(on, start, turn, 5, "ending"))
    losses = [on.example_losses(model, judge).mean().item() for model in first]
    shares = torch.softmax(-len(judge.y) * torch.tensor(losses, dtype=torch.float64), 0)
    second = list(path(on, start, turn._replace(data=whole(turn.data)), 5, "ending/all"))
    expected = sum(share * model["params"] for share, model in zip(shares, second, strict=True))
    torch.testing.assert_close(end.model["params"], expected)
    assert end.epochs == pytest.approx(float(shares @ torch.arange(6.0, dtype=torch.float64)))
    judged = sum(share * model["params"] for share, model in zip(shares, first, strict=True))
    assert end.held_out is not None
    torch.testing.assert_close(end.held_out, on.example_losses({**start, "params": judged}, judge))


def test_training_that_runs_away_on_all_examples_is_not_delivered_by_hand() -> None:
    # F = (w x - y)^2 / 2, w* = 8. Trained on x = 1 alone with a rate of 1/2 the error halves in each epoch; with the
    # held-out x = 3 the mean curvature is 5, and it is multiplied by 1 - 5/2: it grows by half each time.
    one = torch.ones(1, 1, dtype=torch.float64)
    held = Split(3 * one, torch.tensor([24]))
    at = [own("ash", one, torch.tensor([8]))._replace(val=held)]
    turn = turn_of(federation_of(at, 1, 0), at, 0, Solver("sgd", 0.5, batch=1000), epochs=1)
    on = quadratic(1)
    start = on.init(torch.Generator())
    for rate, kept in ((0.5, True), (0.1, False)):  # 0.1 is bearable with both
        end = find_end(on, start, turn._replace(solver=Solver("sgd", rate, batch=1000)), 20)
        assert end.held_out is not None and abs(end.model["params"].item() - 8) < 0.1
        assert torch.equal(on.example_losses(end.model, held), end.held_out) is kept  # the model of step 1


def test_a_given_length_trains_on_all_examples_and_is_judged_without_those_held_out() -> None:
    on, turn = task(linear), turn_with()
    assert turn.data.val is not None
    start = on.init(torch.Generator().manual_seed(3))
    end = go_on(on, start, turn, 3, judged=True)
    everything = turn._replace(epochs=3, data=whole(turn.data))
    assert same(end.model, train(on, start, everything, role="ending/all")) and end.epochs == 3
    apart = train(on, start, turn._replace(epochs=3), role="ending")
    assert end.held_out is not None and torch.equal(end.held_out, on.example_losses(apart, turn.data.val))
    assert go_on(on, start, turn, 3, judged=False).held_out is None


def test_without_held_out_examples_no_length_is_found() -> None:
    on = task(linear)
    with pytest.raises(ValueError, match="held-out"):
        find_end(on, on.init(torch.Generator()), turn_with(val=0), limit=5)


@pytest.mark.parametrize("classes", [3, 0])
def test_losses_of_examples_have_the_loss_as_their_mean(classes: int) -> None:
    from amity.learn.task import Task

    on = Task(lambda: torch.nn.Linear(3, classes or 1), (3,), classes, dtype=torch.float64)
    y = torch.arange(7) % 3 if classes else randn(7)
    split = Split(randn(7, 3), y)
    model = on.init(torch.Generator().manual_seed(1))
    each = on.example_losses(model, split)
    assert each.shape == (7,) and each.sum().item() == pytest.approx(on.evaluate(model, split).loss)


def _model(value: float, count: int = 0) -> Model:
    params = torch.tensor([value], dtype=torch.float64)
    return {"params": params, "buffers": params[:0], "counts": torch.tensor([count])}
