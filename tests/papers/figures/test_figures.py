"""Figures of every kind: a picture is drawn, equal results give equal files, and gaps in the results are survived."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from papers.drawing import COLUMNS, GROUPS, ROWS, figure, not_blank, panels
from papers.synthetic import ROUNDS, changed, experiment, outcome, results

from amity.errors import InputError
from amity.papers import spec, tables
from amity.papers.figures import DRAWINGS, draw, style
from amity.papers.results import Results
from amity.papers.spec import Output

MANY: dict[str, Any] = {name: {} for name in style._PLACES[:15]}
FOUR: dict[str, Any] = {name: {} for name in ("mnist", "fmnist", "emnist", "cifar100")}
NEEDS_RUNS = sorted(set(DRAWINGS) - {"schedulers", "division", "suite-map"})  # the last needs rows of its own


def test_whatever_an_experiment_may_ask_for_is_a_table_or_can_be_drawn() -> None:
    assert set(DRAWINGS) == set(spec.KINDS) - set(tables.KINDS)


@pytest.mark.parametrize(
    "kind",
    [
        kind if kind in ("curves", "heatmap") else pytest.param(kind, marks=pytest.mark.slow)
        for kind in sorted(set(DRAWINGS) - {"suite-map"})
    ],
)
def test_a_picture_and_its_vectors_the_same_each_time(kind: str, tmp_path: Path) -> None:
    found, again = (
        results(
            tmp_path / "runs",
            {"separate": {}, "fedamp": {}},
            {"left": {}},
            seeds=2,
            groups=GROUPS,
            weights=True,
            rounds=6,
        )
        for _ in range(2)
    )
    first = draw(Output(kind, "it"), found, tmp_path / "a")
    second = draw(Output(kind, "it"), again, tmp_path / "b")
    assert [path.name for path in first] == ["it.png", "it.pdf"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["it.pdf", "it.png"]
    assert not_blank(first[0])
    vectors = first[1].read_bytes()
    assert vectors.startswith(b"%PDF") and b"/FontFile2" in vectors and b"/Type3" not in vectors  # TrueType, inside
    assert b"CreationDate" not in vectors
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.parametrize("kind", NEEDS_RUNS)
def test_nothing_recorded_writes_nothing(kind: str, tmp_path: Path) -> None:
    empty = Results(experiment(ROWS, COLUMNS), "cpu", {}, {})
    assert draw(Output(kind, "it"), empty, tmp_path / "out") == []
    without = results(tmp_path, ROWS, COLUMNS)
    assert draw(Output(kind, "it", rows=("fedavg",)), _without(without, "fedavg"), tmp_path / "out") == []
    assert not (tmp_path / "out").exists()


def _without(found: Results, row: str) -> Results:
    return Results(found.experiment, found.size, {k: v for k, v in found.outcomes.items() if k[0] != row}, {})


@pytest.mark.parametrize("kind", NEEDS_RUNS)
def test_gaps_are_survived(kind: str, tmp_path: Path) -> None:
    """Seeds, cells and weights that are missing, rounds and silos that were not measured."""
    found = dict(results(tmp_path, ROWS, COLUMNS, seeds=3, rounds=6, every=4, weights=True, groups=GROUPS).outcomes)
    found["fedavg", "left"] = found["fedavg", "left"][:1]
    del found["fedamp", "right"]
    blind = outcome(tmp_path / "blind.json", rounds=6, every=4)
    best = {**blind.content["best"], "accuracy": [None, *blind.content["best"]["accuracy"][1:]]}
    clients = [[None, *row[1:]] if row else [] for row in blind.clients or []]
    found["fedavg", "right"] = [changed(blind, best=best, clients=clients)]
    assert len(draw(Output(kind, "it"), Results(experiment(ROWS, COLUMNS), "cpu", found, {}), tmp_path)) == 2


@pytest.mark.parametrize("kind", NEEDS_RUNS)
def test_a_run_in_which_nothing_was_measured_shows_nothing(kind: str, tmp_path: Path) -> None:
    blind = outcome(tmp_path / "blind.json")
    nothing: dict[str, Any] = {
        "best": {"round": 1, "mean": None, "accuracy": [None] * 8},
        "rounds": {name: [None] * ROUNDS for name in ("mean", "worst", "pooled", "loss")}
        | {"round": list(range(1, ROUNDS + 1))},
        "clients": [[]] * ROUNDS,
    }
    found = {("fedavg", "left"): [changed(blind, **nothing)]}
    assert draw(Output(kind, "it"), Results(experiment(ROWS, COLUMNS), "cpu", found, {}), tmp_path / "out") == []


@pytest.mark.parametrize("kind", ["curves", "distribution", "sweep", "gains"])
@pytest.mark.parametrize("silos", [20, 30])
def test_fifteen_rows_and_four_columns_fit_the_page(kind: str, silos: int, tmp_path: Path) -> None:
    """Nothing lies outside the page, and the legend covers no panel."""
    found = results(tmp_path, MANY, FOUR, silos=silos, rounds=8)
    drawn = figure(kind, found)
    with style.look():
        drawn.draw_without_rendering()
        page = drawn.bbox
        for axes in panels(drawn):
            box = axes.get_tightbbox()
            assert page.x0 - 1 <= box.x0 and box.x1 <= page.x1 + 1 and page.y0 - 1 <= box.y0 and box.y1 <= page.y1 + 1
            for legend in drawn.legends:
                assert not legend.get_window_extent().overlaps(box)
    assert len(panels(drawn)) == (1 if kind == "sweep" else 4)


@pytest.mark.parametrize("kind", ["curves", "distribution", "sweep", "clients"])
def test_axes_of_quantities_are_not_called_accuracy(tmp_path: Path, kind: str) -> None:
    found = results(tmp_path, ROWS, {"left": {}})
    for outcomes in found.outcomes.values():
        outcomes[0].content["score"] = "r2"
    (axes, *_) = panels(figure(kind, found))
    assert "R²" in axes.get_xlabel() + axes.get_ylabel() and "accuracy" not in axes.get_xlabel() + axes.get_ylabel()


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("curves", {"y": "speed"}, "speed"),
        ("curves", {"by": "silo"}, "silo"),
        ("curves", {"rounds": 0}, "rounds in output it must be a whole number >= 1, got 0"),
        ("gains", {"against": "nobody"}, "nobody"),
        ("trajectories", {"silo": 8}, "below the 8 silos, got 8"),
        ("trajectories", {"silo": "first"}, "whole number"),
        ("schedulers", {"penalty_rounds": 2}, "penalty_rounds"),
        ("table", {}, "unknown kind of figure 'table'"),
    ],
)
def test_mistakes_are_told_in_one_line(kind: str, options: dict[str, Any], says: str, tmp_path: Path) -> None:
    found = results(tmp_path / "runs", ROWS, COLUMNS, weights=True)
    with pytest.raises(InputError) as error:
        draw(Output(kind, "it", options=options), found, tmp_path / "out")
    assert says in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()
