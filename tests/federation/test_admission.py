"""Admission of uploads: what is expected of a method that declares it, and of one that does not; alone and as rows.

The law over all methods is in test_laws.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import CLASSES, FEATURES, Hostile, batchnorm, linear, run, same, silos, task
from torch import Tensor, nn

from amity.contract import Download, Federation, Kind, Kinds, State, Turn, kinds_like, model_of
from amity.federation.admission import Admission, advice, expected, variances_of
from amity.federation.plan import federation_of
from amity.learn.task import Task
from amity.learn.train import train
from amity.methods import build
from amity.methods.fedamp import FedAMP
from amity.methods.wrappers import FineTuned

KINDS = {
    "params": Kind((3,), torch.float32),
    "scale": Kind((), torch.float64),
    "ids": Kind((2,), torch.int64, least=0, most=4),
    "none": Kind((0,), torch.int64, least=0, most=4),
}
UPLOAD = {
    "params": torch.tensor([1.0, -2.0, 0.0]),
    "scale": torch.tensor(-1.0, dtype=torch.float64),
    "ids": torch.tensor([0, 4]),
    "none": torch.zeros(0, dtype=torch.int64),
}


def test_what_was_declared_is_let_in() -> None:
    assert Admission(KINDS).refused(UPLOAD) is None
    turned = {**UPLOAD, "params": torch.arange(6.0)[::2]}  # every other number of a longer vector
    assert not turned["params"].is_contiguous() and Admission(KINDS).refused(turned) is None
    assert Admission({}).refused({}) is None
    assert Admission(None).refused(UPLOAD) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ids": torch.tensor([0, 5])}, "ids is not between 0 and 4"),
        ({"ids": torch.tensor([-1, 0])}, "ids is not between 0 and 4"),
        ({"ids": torch.tensor([1 << 62, 0])}, "ids is not between 0 and 4"),
        ({"scale": torch.zeros(1, dtype=torch.float64)}, "scale has the shape [1], not []"),
        ({"scale": torch.tensor(torch.nan, dtype=torch.float64)}, "scale not finite"),
        ({"params": torch.zeros(3).half()}, "params is float16, not float32"),
        ({"params": None}, "params is no tensor"),
        ({"x" * 1000: torch.zeros(1)}, f"{'x' * 1000!r}"[:40] + " is not part of it"),
        ({"a\nb": torch.zeros(1)}, r"'a\nb' is not part of it"),
    ],
)
def test_one_thing_that_is_wrong_is_enough(change: dict[str, Any], reason: str) -> None:
    assert Admission(KINDS).refused({**UPLOAD, **change}) == f"upload refused: {reason}"


def test_no_variance_is_below_zero() -> None:
    """The mean of a model's inputs may be; and a model without such buffers has none."""
    on = task(batchnorm)
    which = variances_of(on)
    assert which is not None and which.tolist() == [False] * 4 + [True] * 4 and variances_of(task()) is None
    own = on.initial(federation_of(silos(), 1, 0))
    door = Admission(kinds_like(own), which)
    lows = [own["buffers"] - 2 * torch.eye(8)[at] for at in range(8)]
    for at, low in enumerate(lows):
        why = door.refused({**own, "buffers": low})
        assert why == (None if at < 4 else "upload refused: buffers has a variance below zero")
    rows = {key: value.expand(8, *value.shape) for key, value in own.items()} | {"buffers": torch.stack(lows)}
    assert list(door.refused_rows(rows, 8)) == [4, 5, 6, 7]
    assert Admission(kinds_like(own)).refused({**own, "buffers": lows[-1]}) is None


def test_large_numbers_are_finite() -> None:
    """Also where their sum is not."""
    large = torch.full((3,), torch.finfo(torch.float32).max)
    assert Admission(KINDS).refused({**UPLOAD, "params": large}) is None
    both_signs = torch.tensor([torch.inf, -torch.inf, 0])
    assert Admission(KINDS).refused({**UPLOAD, "params": both_signs}) == "upload refused: params not finite"


def test_training_diverges_where_numbers_are_not_finite_and_nowhere_else() -> None:
    assert advice("upload refused: params not finite").endswith("training diverges, try a smaller rate")
    assert advice("upload refused: ids is missing") == "upload refused: ids is missing"


number = st.sampled_from([0.0, 1.5, -1e30, torch.nan, torch.inf])
place = st.sampled_from([-1, 0, 4, 5, 1 << 62])


@given(st.lists(st.tuples(number, number, place), min_size=1, max_size=5))
def test_rows_of_a_matrix_are_judged_as_each_alone(rows: list[tuple[float, float, int]]) -> None:
    uploads = {
        "params": torch.tensor([[a, 0.0, b] for a, b, _ in rows]),
        "scale": torch.tensor([b for _, b, _ in rows], dtype=torch.float64),
        "ids": torch.tensor([[0, i] for _, _, i in rows]),
        "none": torch.zeros(len(rows), 0, dtype=torch.int64),
    }
    alone = [Admission(KINDS).refused({key: value[at] for key, value in uploads.items()}) for at in range(len(rows))]
    want = {at: reason for at, reason in enumerate(alone) if reason is not None}
    assert Admission(KINDS).refused_rows(uploads, len(rows)) == want


def test_a_matrix_of_another_form_is_refused_row_by_row() -> None:
    rows = {key: value.expand(2, *value.shape) for key, value in UPLOAD.items()}
    assert Admission(KINDS).refused_rows(rows, 2) == {}
    reason = "upload refused: params has the shape [2, 2], not [2, 3]"
    assert Admission(KINDS).refused_rows({**rows, "params": torch.zeros(2, 2)}, 2) == {0: reason, 1: reason}
    assert Admission({}).refused_rows({}, 3) == {}


def test_counters_have_room_to_grow() -> None:
    """Integers of a model that are below 0 from the first may stay so; no counter can make another one overflow."""
    assert kinds_like({"counts": torch.tensor([3, 0])})["counts"][2:] == (0, 1 << 62)
    assert kinds_like({"counts": torch.tensor([3, -7])})["counts"][2:] == (-7, 1 << 62)
    assert kinds_like({"counts": torch.zeros(0, dtype=torch.int64)})["counts"].least == 0


# Methods that do not say what their uploads are


@dataclass(frozen=True)
class Own(FedAMP):
    """Somebody's own method, made before methods declared anything."""

    work: Callable[[Task, State, State, Turn], State] = lambda task, client, down, turn: train(task, down, turn)

    def upload_kinds(self, task: Any, fed: Any, down: Download) -> None:  # type: ignore[override]
        return None

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        upload = self.work(task, client, down, turn)
        return {**client, **model_of(upload)}, upload


class Attacked(Hostile):
    """The silo is hostile, the server is not: it rehearses the method as it is."""

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return expected(self.method, task, fed, self.solver, down, torch.arange(5), 1)


def one_number(upload: State, is_it: Tensor, round: int) -> State:
    return {**upload, "params": upload["params"][:1]} if is_it and round == 2 else upload


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_method_that_declares_nothing_is_rehearsed(wrapped: bool) -> None:
    plain, own = (FineTuned(m, ft_epochs=0) if wrapped else m for m in (FedAMP(attraction=0), Own()))
    for one, other in zip(run(Hostile(plain, one_number)), run(Attacked(own, one_number)), strict=True):
        assert one.dropped == other.dropped and bool(one.dropped) == (one.round == 2)
        assert same(one.progress.server, other.progress.server)


def test_the_first_upload_that_arrives_decides_nothing() -> None:
    """One worker takes silos in order: the first silo is the hostile one."""
    for report in run(Attacked(Own(), one_number, who=0), rounds=2):
        assert report.took_part == ([0, 1, 2, 3, 4] if report.round == 1 else [1, 2, 3, 4])


def by_steps(task: Task, client: State, down: State, turn: Turn) -> State:
    """Divides by its number of epochs, which is never 0 in a run."""
    return {key: value * (1 // turn.epochs or 1) for key, value in train(task, down, turn).items()}


def test_a_method_that_cannot_do_without_an_epoch_is_rehearsed_with_one() -> None:
    rounds = run(Attacked(Own(work=by_steps), one_number), epochs=1)
    assert [report.dropped.keys() for report in rounds] == [set(), {1}, set()]


def broken(task: Task, client: State, down: State, turn: Turn) -> State:
    raise ValueError("a mistake of its author")


def test_a_method_that_cannot_be_rehearsed_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match="a mistake of its author") as caught:
        run(Own(work=broken))
    assert any("upload_kinds" in note for note in caught.value.__notes__)


def test_rehearsals_see_labels_of_the_right_type() -> None:
    """Quantities are numbers, classes are integers."""
    seen: list[Any] = []

    def work(task: Task, client: State, down: State, turn: Turn) -> State:
        seen.append(turn.data.train)
        return train(task, down, turn)

    at = [s._replace(train=s.train._replace(y=s.train.x[:, 0])) for s in silos()]
    at = [s._replace(test=s.test._replace(y=s.test.x[:, 0])) for s in at]
    run(Own(work=work), at=at, on=Task(lambda: nn.Linear(FEATURES, 1), (FEATURES,), 0, dtype=torch.float64), rounds=1)
    assert seen[0].x.shape == (7, FEATURES) and not seen[0].x.any() and seen[0].y.dtype == torch.float64
    seen.clear()
    run(Own(work=work), on=Task(linear, (FEATURES,), CLASSES, dtype=torch.float64), rounds=1)
    assert seen[0].y.dtype == torch.int64


def test_nothing_is_expected_of_uploads_that_are_not_asked_for() -> None:
    """The kinds follow the download: with three asked, a silo of fedfomo is sent two models and answers for two."""
    method, on = build("fedfomo"), task()
    fed = federation_of(silos(), 1, 1)
    who = torch.tensor([0, 2, 4])
    down = method.download(method.init_server(on, fed), who, 1, lambda role, key: torch.Generator().manual_seed(key))
    kinds = method.upload_kinds(on, fed, down)  # type: ignore[attr-defined]
    assert kinds["ids"] == Kind((2,), torch.int64, 0, 4) and kinds["scores"].shape == (3,)
