"""Figures: every kind draws a picture, equal results give equal files, and gaps in the results are survived.

Where a figure shows a number that can be computed by hand, the drawn line or label is compared with it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from synthetic import ROUNDS, experiment, outcome, results

from amity.errors import InputError
from amity.experiments import spec, tables
from amity.experiments.figures import DRAWINGS, draw, paper, settings
from amity.experiments.figures.view import View
from amity.experiments.reproduce import Results
from amity.experiments.spec import Output
from amity.report.figures import COLOURS

ROWS: dict[str, Any] = {"separate": {"label": "Separate"}, "fedavg": {}, "fedamp": {"label": "FedAMP"}}
COLUMNS: dict[str, Any] = {"left": {"label": "LEFT"}, "right": {"setting": "pathological"}}
MANY = {name: {} for name in paper._PLACES[:15]}
FOUR: dict[str, Any] = {name: {} for name in ("mnist", "fmnist", "emnist", "cifar100")}
GROUPS = (0, 1, 0, 1, 2, 2, 0, 1)
NEEDS_RUNS = sorted(set(DRAWINGS) - {"schedulers", "division"})


def figure(kind: str, found: Results, **options: Any) -> Any:
    with paper.look():
        return DRAWINGS[kind](View(Output(kind, "it", options=options), found))


def panels(drawn: Any) -> list[Any]:
    """The panels with something in them; an empty place holds the legend."""
    return [axes for axes in drawn.axes if axes.axison]


def not_blank(path: Path) -> bool:
    with Image.open(path) as image:
        return len(image.convert("RGB").getcolors(maxcolors=10**7)) > 10


def test_whatever_an_experiment_may_ask_for_is_a_table_or_can_be_drawn() -> None:
    assert set(DRAWINGS) == set(spec.KINDS) - set(tables.KINDS)


@pytest.mark.parametrize("kind", DRAWINGS)
def test_a_picture_and_its_vectors_the_same_each_time(kind: str, tmp_path: Path) -> None:
    rows, columns = {"separate": {}, "fedamp": {}}, {"left": {}}
    found = results(tmp_path / "runs", rows, columns, seeds=2, groups=GROUPS, weights=True, rounds=6)
    again = results(tmp_path / "runs", rows, columns, seeds=2, groups=GROUPS, weights=True, rounds=6)
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
    clients = [[None, *row[1:]] if row else [] for row in blind.content["clients"]]
    found["fedavg", "right"] = [type(blind)(blind.path, {**blind.content, "best": best, "clients": clients})]
    assert len(draw(Output(kind, "it"), Results(experiment(ROWS, COLUMNS), "cpu", found, {}), tmp_path)) == 2


@pytest.mark.parametrize("kind", NEEDS_RUNS)
def test_a_run_in_which_nothing_was_measured_shows_nothing(kind: str, tmp_path: Path) -> None:
    blind = outcome(tmp_path / "blind.json")
    nothing = {
        "best": {"round": 1, "mean": None, "accuracy": [None] * 8},
        "rounds": {name: [None] * ROUNDS for name in ("mean", "worst", "pooled", "loss")}
        | {"round": list(range(1, ROUNDS + 1))},
        "clients": [[]] * ROUNDS,
    }
    found = {("fedavg", "left"): [type(blind)(blind.path, {**blind.content, **nothing})]}
    assert draw(Output(kind, "it"), Results(experiment(ROWS, COLUMNS), "cpu", found, {}), tmp_path / "out") == []


@pytest.mark.parametrize("kind", ["curves", "distribution", "sweep", "gains"])
@pytest.mark.parametrize("silos", [20, 30])
def test_fifteen_rows_and_four_columns_fit_the_page(kind: str, silos: int, tmp_path: Path) -> None:
    """Nothing lies outside the page, and the legend covers no panel."""
    found = results(tmp_path, MANY, FOUR, silos=silos, rounds=8)
    drawn = figure(kind, found)
    with paper.look():
        drawn.draw_without_rendering()
        page = drawn.bbox
        for axes in panels(drawn):
            box = axes.get_tightbbox()
            assert page.x0 - 1 <= box.x0 and box.x1 <= page.x1 + 1 and page.y0 - 1 <= box.y0 and box.y1 <= page.y1 + 1
            for legend in drawn.legends:
                assert not legend.get_window_extent().overlaps(box)
    assert len(panels(drawn)) == (1 if kind == "sweep" else 4)


@pytest.mark.parametrize("kind", ["heatmap", "trajectories"])
def test_negative_weights(kind: str, tmp_path: Path) -> None:
    found = results(tmp_path, {"apple": {}}, FOUR, weights=True, signed=True)
    assert not_blank(draw(Output(kind, "it"), found, tmp_path)[0])


def test_a_method_has_the_same_pen_everywhere() -> None:
    assert paper.pens(["fedamp", "mine", "fedavg"])["fedamp"] == paper.pens(["other", "x", "fedamp"])["fedamp"]


def test_every_method_has_a_pen_of_its_own() -> None:
    from amity.methods import METHODS

    assert set(METHODS) <= set(paper._PLACES)
    pens = paper.pens(METHODS)
    assert len({(pen.marker, pen.dash) for pen in pens.values()}) == len(METHODS)


@given(st.lists(st.sampled_from([*paper._PLACES[:6], *"abcdefghijklmnopqrstuvwxyz"]), unique=True))
def test_pens_differ_also_in_grey(names: list[str]) -> None:
    pens = paper.pens(names)
    assert list(pens) == names
    assert len({(pen.marker, pen.dash) for pen in pens.values()}) == len(names)


def test_curves_show_the_mean_over_seeds_and_one_deviation(tmp_path: Path) -> None:
    found = results(tmp_path, {"fedamp": {}}, {"left": {}}, seeds=3, every=3)
    (axes,) = panels(figure("curves", found, y="worst"))
    seeds = [found.seeds("fedamp", "left")[seed].rounds["worst"][::3] for seed in range(3)]
    line, band = axes.lines[0], axes.collections[0].get_paths()[0].vertices
    assert list(line.get_xdata()) == list(range(1, ROUNDS + 1, 3))
    assert line.get_ydata() == pytest.approx(np.mean(seeds, axis=0))
    assert line.get_color() == COLOURS[0]
    top = band[band[:, 0] == 1][:, 1].max()
    assert top == pytest.approx(np.mean(seeds, axis=0)[0] + np.std(seeds, axis=0, ddof=1)[0])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "worst silo's test accuracy, %")


def test_curves_either_way_round(tmp_path: Path) -> None:
    found = results(tmp_path, ROWS, COLUMNS)
    by_row, by_column = figure("curves", found), figure("curves", found, by="column")
    assert [axes.get_title() for axes in panels(by_row)] == ["LEFT", "right"]
    assert [axes.get_title() for axes in panels(by_column)] == ["Separate", "fedavg", "FedAMP"]
    assert [len(axes.lines) for axes in panels(by_row)] == [3, 3]
    assert [len(axes.lines) for axes in panels(by_column)] == [2, 2, 2]
    (short,) = {len(line.get_xdata()) for axes in panels(figure("curves", found, rounds=7)) for line in axes.lines}
    assert short == 7


def test_an_output_shows_the_rows_and_columns_that_it_names(tmp_path: Path) -> None:
    found = results(tmp_path, ROWS, COLUMNS)
    with paper.look():
        drawn: Any = DRAWINGS["curves"](View(Output("curves", "it", ("fedamp",), ("right",)), found))
    (axes,) = panels(drawn)
    assert len(axes.lines) == 1 and axes.get_title() == ""


def sweep_lines(rows: Mapping[str, Any], tmp_path: Path) -> tuple[Any, Any]:
    (axes,) = panels(figure("sweep", results(tmp_path, rows, {"left": {}}, seeds=2), xlabel="sigma"))
    return axes, axes.lines[0]


def test_a_sweep_stands_at_its_values(tmp_path: Path) -> None:
    rows = {f"row{place}": {"value": value} for place, value in enumerate((10, 1, 1000))}
    axes, line = sweep_lines(rows, tmp_path)
    found = results(tmp_path, rows, {"left": {}}, seeds=2)
    expected = [np.mean([seed.bmta for seed in found.seeds(row, "left")]) for row in ("row1", "row0", "row2")]
    assert list(line.get_xdata()) == [1, 10, 1000] and line.get_ydata() == pytest.approx(expected)
    assert axes.get_xscale() == "log" and axes.get_xlabel() == "sigma"


@pytest.mark.parametrize(
    ("values", "scale"),
    [((1, 2, 5), "linear"), ((0, 0.1, 100), "symlog"), ((-1, 1, 1000), "linear"), (("cos", "exp", 1), "linear")],
)
def test_the_axis_of_a_sweep(values: tuple[Any, ...], scale: str, tmp_path: Path) -> None:
    axes, line = sweep_lines({f"row{place}": {"value": value} for place, value in enumerate(values)}, tmp_path)
    assert axes.get_xscale() == scale
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(value) for value in values]
    assert len(line.get_xdata()) == 3


def test_series_of_a_sweep_are_lines_in_a_panel_per_column(tmp_path: Path) -> None:
    rows = {f"{name}{value}": {"value": value, "series": name} for name in ("a", "b") for value in (1, 2, 3)}
    drawn = figure("sweep", results(tmp_path, rows, COLUMNS))
    assert [axes.get_title() for axes in panels(drawn)] == ["LEFT", "right"]
    assert [list(line.get_xdata()) for line in panels(drawn)[0].lines] == [[1, 2, 3], [1, 2, 3]]
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["a", "b"]


def test_heatmaps_are_sorted_by_group_and_scaled_by_the_others(tmp_path: Path) -> None:
    found = results(tmp_path, {"fedamp": {"label": "FedAMP"}}, {"left": {}}, weights=True, groups=GROUPS)
    axes = panels(figure("heatmap", found))[0]
    (image,) = axes.images
    weights = found.seeds("fedamp", "left")[0].weights[ROUNDS]
    order = [0, 2, 6, 1, 3, 7, 4, 5]
    assert np.array_equal(image.get_array(), weights[np.ix_(order, order)])
    others = weights[~np.eye(8, dtype=bool)]
    assert image.get_clim() == pytest.approx((0, others.max()))
    assert axes.get_title() == "FedAMP, left: block score 12.3"
    assert [line.get_ydata()[0] for line in axes.lines[::2]] == [2.5, 5.5]
    bar = axes.child_axes[0]
    assert "clipped" in bar.get_ylabel()


def test_signed_weights_have_their_zero_in_the_middle(tmp_path: Path) -> None:
    found = results(tmp_path, {"apple": {}}, {"left": {}}, weights=True, signed=True)
    low, high = panels(figure("heatmap", found))[0].images[0].get_clim()
    assert low == -high < 0


def test_weights_that_were_not_asked_for_or_are_all_own(tmp_path: Path) -> None:
    found = results(tmp_path, {"apple": {}}, {"left": {}}, weights=True)
    one = found.seeds("apple", "left")[0]
    alone, unknown = np.eye(8), np.full((8, 8), np.nan)
    np.savez(one.path.with_suffix(".npz"), **{"1": alone, "2": unknown, "3": alone})
    assert panels(figure("heatmap", found))[0].images[0].get_clim() == (0, 1)
    again = results(tmp_path, {"apple": {}}, {"left": {}}, weights=False)  # the same file, read anew
    left, right = panels(figure("trajectories", again, silo=2))
    assert [list(line.get_xdata()) for line in right.lines] == [[1, 3]] * 8
    assert [list(line.get_ydata()) for line in left.lines] == [[float(silo == 2)] * 2 for silo in range(8)]
    np.savez(one.path.with_suffix(".npz"), **{"1": unknown})
    assert len(draw(Output("heatmap", "it"), results(tmp_path, {"apple": {}}, {"left": {}}), tmp_path)) == 2


def test_clients_show_every_silo_and_their_mean(tmp_path: Path) -> None:
    found = results(tmp_path, {"fedamp": {}}, {"left": {}}, every=2)
    (axes,) = panels(figure("clients", found))
    one = found.seeds("fedamp", "left")[0]
    measured = np.array([row for row in one.clients or [] if row])
    assert len(axes.lines) == 9
    assert axes.lines[3].get_ydata() == pytest.approx(measured[:, 3])
    assert axes.lines[8].get_ydata() == pytest.approx(measured.mean(axis=1))


@pytest.mark.parametrize("kind", ["curves", "distribution", "sweep", "clients"])
def test_axes_of_quantities_are_not_called_accuracy(tmp_path: Path, kind: str) -> None:
    found = results(tmp_path, ROWS, {"left": {}})
    for outcomes in found.outcomes.values():
        outcomes[0].content["score"] = "r2"
    (axes, *_) = panels(figure(kind, found))
    assert "R²" in axes.get_xlabel() + axes.get_ylabel() and "accuracy" not in axes.get_xlabel() + axes.get_ylabel()


def test_silos_of_all_methods_are_seen_on_one_axis(tmp_path: Path) -> None:
    """Whose silos lie closer together could not be told from axes of their own."""
    plan = experiment({"fedavg": {}, "fedamp": {}}, {"left": {}})
    found = {(row, "left"): [outcome(tmp_path / row, level=level)] for row, level in (("fedavg", 10), ("fedamp", 90))}
    low, high = panels(figure("clients", Results(plan, "cpu", found, {})))
    assert low.get_ylim() == high.get_ylim()


def test_silos_that_failed_do_not_squash_the_others(tmp_path: Path) -> None:
    """Two of 60 far below: the axis begins above them, and a mark says how many there are."""
    found = results(tmp_path, ROWS, {"left": {}}, silos=20)
    failed = found.seeds("fedavg", "left")[0]
    failed.content["best"]["accuracy"][:2] = [1.0, 2.0]
    (axes,) = panels(figure("distribution", found))
    hidden = [20 - len(dots.get_offsets()) for dots in axes.collections[::2]]  # beside each row's dots is its median
    assert axes.get_xlim()[0] > 30 and hidden[1] >= 2 and sum(hidden) <= 3
    assert [text.get_text().strip() for text in axes.texts] == [f"◂ {count}" for count in hidden if count]
    assert "silos left of the axis" in [text.get_text() for text in axes.figure.legends[0].texts]
    whole = figure("distribution", results(tmp_path, ROWS, {"left": {}}, silos=20))
    assert not panels(whole)[0].texts and "silos left of the axis" not in str(whole.legends[0].texts)


def test_distributions_show_every_silo(tmp_path: Path) -> None:
    found = results(tmp_path, ROWS, COLUMNS, seeds=2)
    first, second = panels(figure("distribution", found))
    shown = sorted(first.collections[0].get_offsets()[:, 0])
    assert shown == pytest.approx(sorted(v for seed in found.seeds("separate", "left") for v in seed.accuracies))
    assert [label.get_text() for label in first.get_yticklabels()] == ["Separate", "fedavg", "FedAMP"]


def test_gains_are_differences_at_the_same_seed(tmp_path: Path) -> None:
    full = results(tmp_path, ROWS, {"left": {}}, seeds=2)
    found = Results(full.experiment, "cpu", {**full.outcomes, ("fedamp", "left"): full.seeds("fedamp", "left")[1:]}, {})
    (axes,) = panels(figure("gains", found))
    by_hand = {
        "fedamp": _difference(full, "fedamp", "separate", [1]),
        "fedavg": _difference(full, "fedavg", "separate", [0, 1]),
    }
    dots = {line.get_color(): line.get_xdata() for line in axes.lines[:2]}
    for row, gain in by_hand.items():
        assert dots[paper.pens(ROWS)[row].colour] == pytest.approx(gain)
    (against,) = panels(figure("gains", found, against="fedavg"))
    assert len(against.lines) == 3 and "fedavg" in against.get_xlabel()  # two rows, and the line at zero


def _difference(found: Results, row: str, other: str, seeds: list[int]) -> Any:
    pairs = [(found.seeds(row, "left")[seed].accuracies, found.seeds(other, "left")[seed].accuracies) for seed in seeds]
    return np.mean([np.array(ours) - np.array(theirs) for ours, theirs in pairs], axis=0)


def test_gains_of_many_silos_are_sorted(tmp_path: Path) -> None:
    found = results(tmp_path, ROWS, {"left": {}}, silos=25)
    (axes,) = panels(figure("gains", found))
    zero, *lines = axes.lines
    assert list(zero.get_ydata()) == [0, 0]
    assert lines[0].get_ydata() == pytest.approx(sorted(_difference(found, "fedavg", "separate", [0]), reverse=True))


def test_schedulers_end_where_the_penalty_does(tmp_path: Path) -> None:
    (axes,) = panels(figure("schedulers", results(tmp_path, ROWS, COLUMNS), rounds=8, penalty_rounds=0.5))
    cosine, exponential = (line.get_ydata() for line in axes.lines)
    root = 0.5**0.5
    assert cosine == pytest.approx([1, (1 + root) / 2, 0.5, (1 - root) / 2, 0, 0, 0, 0])
    assert exponential == pytest.approx([1, 1e-3**0.25, 1e-3**0.5, 1e-3**0.75, 0, 0, 0, 0])


def test_bubbles_of_a_few_examples_are_still_seen() -> None:
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    settings._bubbles(axes, np.array([[6000, 10], [0, 1]]), [COLOURS[0]] * 2, 196 / 6000)
    assert sorted(axes.collections[0].get_sizes()) == pytest.approx([1, 1, 196])


def test_bubbles_are_as_large_as_the_counts(tmp_path: Path) -> None:
    from amity.config import Run
    from amity.run import silos_of

    plan = experiment({"fedavg": {"choose": {"lr": [0.1, 0.2]}}}, {"left": {"per_silo": 40}})
    (axes,) = panels(figure("division", Results(plan, "cpu", {}, {})))
    run = Run(method="fedavg", data="digits", setting="practical", clients=6)
    counts = np.array([s["train"] for s in silos_of(run).at_most(40, 0).manifest()["silos"]])  # [m, classes]
    (dots,) = axes.collections
    places, sizes = dots.get_offsets().astype(int), dots.get_sizes()
    assert len(places) == (counts > 0).sum()
    held = np.array([counts[silo, label] for silo, label in places])
    assert sizes / sizes.max() == pytest.approx(held / held.max())


def test_many_silos_are_cells_of_a_grid(tmp_path: Path) -> None:
    plan = experiment({"fedavg": {}}, {"left": {"clients": 50}})
    axes = panels(figure("division", Results(plan, "cpu", {}, {})))[0]
    assert axes.images[0].get_array().shape == (10, 50)


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


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_a_row_or_column_that_is_not_there(axis: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nobody"):
        draw(Output("curves", "it", **{axis: ("nobody",)}), results(tmp_path, ROWS, COLUMNS), tmp_path)


def test_settings_of_the_user_neither_change_the_figures_nor_are_changed(tmp_path: Path) -> None:
    import matplotlib

    found = results(tmp_path, ROWS, COLUMNS)
    plain = draw(Output("curves", "it"), found, tmp_path / "a")
    with matplotlib.rc_context({"axes.facecolor": "yellow", "font.size": 30}):
        odd = draw(Output("curves", "it"), found, tmp_path / "b")
        assert matplotlib.rcParams["font.size"] == 30
    assert [path.read_bytes() for path in plain] == [path.read_bytes() for path in odd]


def test_without_matplotlib_everything_but_drawing_works(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["matplotlib"] = None
from pathlib import Path
from amity.errors import InputError
from amity.experiments.figures import draw
from amity.experiments.reproduce import Results
from amity.experiments.spec import Experiment, Output
plan = Experiment("a/b", {{"rows": {{}}, "columns": {{}}, "sizes": {{"cpu": {{}}}}}})
try:
    draw(Output("curves", "it"), Results(plan, "cpu", {{}}, {{}}), Path({str(tmp_path / "out")!r}))
except InputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "figures need matplotlib, which is not there: pip install 'amity[figures]'\n", done.stderr
    assert not (tmp_path / "out").exists()
