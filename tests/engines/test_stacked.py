"""Stacked execution: what the loop gives, up to rounding, for every method that can be stacked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import CLASSES, FEATURES, Seen, batchnorm, dropout, half_square, linear, mlp, run, same, silo, silos, solver_of
from torch import Tensor, nn

from amity.contract import Download, Federation, InputError, Model, Round, Silo, Solver, State, Turn, model_of
from amity.engines import stacked
from amity.engines.dense import Dense, dense_of
from amity.methods import METHODS
from amity.task import Task
from amity.train import batches, gradient_at, train

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}

ONE_BY_ONE = {"apple"}  # its code writes into one row of a matrix, each client into its own

EQUAL = [silo(f"silo-{i}", 12, i % 2) for i in range(5)]

SILOS: dict[str, tuple[Sequence[Silo], dict[str, Any]]] = {
    "equal": (EQUAL, {}),
    "unequal": (silos(), {}),
    "epochs": (silos(7), {"local_epochs_range": (1, 3)}),
}


def task_of(make: Callable[[], nn.Module] = mlp, dtype: torch.dtype = torch.float64) -> Task:
    return Task(make, (FEATURES,), CLASSES, dtype=dtype)


def validated(at: Sequence[Silo]) -> list[Silo]:
    """The same silos, each with some of its test data for validation."""
    return [s._replace(val=type(s.test)(s.test.x[: 2 + i % 3], s.test.y[: 2 + i % 3])) for i, s in enumerate(at)]


def difference(one: State, other: State) -> float:
    """The largest distance of two tensors of the same name, relative to their length."""
    assert one.keys() == other.keys()
    out = 0.0
    for key, value in one.items():
        assert value.dtype == other[key].dtype and value.shape == other[key].shape, key
        if value.is_floating_point() and value.numel():
            out = max(out, float((value - other[key]).norm() / other[key].norm().clamp(min=1e-3)))
        else:
            assert torch.equal(value, other[key]), key
    return out


def agree(loop: Sequence[Seen], stack: Sequence[Seen], tolerance: float) -> None:
    for one, other in zip(loop, stack, strict=True):
        states = zip(
            [one.progress.server, *one.progress.clients, *one.models],
            [other.progress.server, *other.progress.clients, *other.models],
            strict=True,
        )
        assert max(difference(a, b) for a, b in states) <= tolerance
        for mine, theirs in zip(one.scores, other.scores, strict=True):
            assert torch.equal(mine.right, theirs.right)
            assert mine.loss == pytest.approx(theirs.loss, rel=tolerance, abs=tolerance)
        facts = ("took_part", "dropped", "epochs", "bytes_up", "bytes_down", "bytes_eval", "holds")
        assert all(getattr(one, fact) == getattr(other, fact) for fact in facts)


def both(method: Any, **options: Any) -> tuple[list[Seen], list[Seen]]:
    return run(method, engine="loop", **options), run(method, engine="stacked", **options)


# Equal to the loop


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("sizes", SILOS)
@pytest.mark.parametrize("name", METHODS)
def test_stacked_equals_loop(name: str, sizes: str, dtype: torch.dtype) -> None:
    at, rule = SILOS[sizes]
    method = stacked_method(name)
    loop, stack = both(method, on=task_of(dtype=dtype), at=validated(at), solver=solver_of(method, batch=4), **rule)
    assert {report.executed for report in loop} == {"loop"}
    assert {report.executed for report in stack} == {"loop" if name in ONE_BY_ONE else "stacked"}
    agree(loop, stack, TOLERANCE[dtype])


def stacked_method(name: str, **settings: Any) -> Any:
    from amity.methods import build

    return build(name, settings)
