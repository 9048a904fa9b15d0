"""Figures of a report as files: numbers as CSV, pictures as PNG and PDF, colours that mean the same as on the page."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from report.views import EVIL, NAMES, a_view, attention, packed

from amity.errors import InputError
from amity.report.figures import tables, write_figures, writing
from amity.report.figures.colours import ABSENT, EVEN, MOST, channels, count_colours, weight_colours
from amity.report.page import asset


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_every_picture_is_written_as_csv_png_and_pdf(tmp_path: Path) -> None:
    view = a_view(5, 3, ("fedamp", "separate"))
    view["runs"][1]["course"]["loss"] = view["runs"][0]["course"]["loss"] = [None] * 3
    written = write_figures(view, tmp_path / "figures")
    assert written.missing == "" and all(path.exists() for path in written.paths)
    names = {path.stem for path in written.paths}
    assert names == {
        *("differences-fedamp", "silos", "traffic", "weights-fedamp", "ties-fedamp", "curves-mean", "curves-worst"),
        *("silo-lines-fedamp", "silo-lines-separate", "holdings"),
    }
    for name in names:
        assert len(read(tmp_path / "figures" / f"{name}.csv")) > 1
        assert (tmp_path / "figures" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (tmp_path / "figures" / f"{name}.pdf").read_bytes()[:4] == b"%PDF"


def test_csv_files_need_no_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "find_spec", lambda name: None)
    written = write_figures(a_view(), tmp_path)
    assert {path.suffix for path in written.paths} == {".csv"} and "pip install 'amity[figures]'" in written.missing


def test_numbers_are_those_of_the_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "find_spec", lambda name: None)
    view = a_view()
    write_figures(view, tmp_path)
    rows = read(tmp_path / "weights-fedamp.csv")
    assert rows[0] == ["to", *(f"from {name}" for name in NAMES)]
    found = np.array([row[1:] for row in rows[1:]], dtype=np.float64)
    np.testing.assert_allclose(found, attention(5, 5)[-1], atol=1e-5)
    rows = read(tmp_path / "differences-fedamp.csv")
    assert [row[0] for row in rows[1:]] == [*NAMES[:4], "'=1+1"]  # no formula
    assert [float(row[5]) for row in rows[1:]] == [silo["difference"] for silo in view["worth"][0]["silos"]]
    rows = read(tmp_path / "holdings.csv")
    assert rows[1] == ["north", "0", "60", "", "120", "40", "20", "0"] and rows[2][0] == EVIL


def test_files_have_names_that_every_system_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "find_spec", lambda name: None)
    view = a_view(methods=("fedamp", "apple"))
    for run, name in zip(view["runs"], ("../../fedamp (x/run)", "FedAMP x: run"), strict=True):
        run["name"] = name
    paths = write_figures(view, tmp_path / "out").paths
    assert all(path.parent == tmp_path / "out" and re.fullmatch(r"[\w.-]+", path.name) for path in paths)
    assert len({path.name.lower() for path in paths}) == len(paths)
    assert {"weights-fedamp-x-run.csv", "weights-fedamp-x-run-2.csv"} <= {path.name for path in paths}


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="figures go into a directory"):
        write_figures(a_view(), tmp_path / "file")


def test_ties_that_stand_out_by_hand() -> None:
    """Of four silos an even share is a quarter, so a tie begins at 0.375; nobody's own weight is one."""
    matrix = np.array([[0.4, 0.4, 0.1, 0.1], [0.25] * 4, [0.05, 0.9, 0.0, 0.05], [np.nan] * 4])
    found = tables.strongest(packed(matrix[None], [1]))
    assert [(giver, receiver) for giver, receiver, _ in found] == [(1, 2), (1, 0)]
    assert [value for _, _, value in found] == pytest.approx([0.9, 0.4], abs=1e-4)


def test_equal_ties_do_not_all_come_from_the_first_silos() -> None:
    """Sixty silos in two camps that listen to their own alike: everybody's one tie is to the next of its camp."""
    camps = np.equal.outer(np.arange(60) % 2, np.arange(60) % 2) / 30
    found = tables.strongest(packed(camps[None], [1]))
    assert sorted((giver, receiver) for giver, receiver, _ in found) == sorted(((to + 2) % 60, to) for to in range(60))


def test_a_uniform_matrix_is_pale_and_a_tie_is_dark() -> None:
    for m in (2, 4, 20, 100):
        even = weight_colours(np.full((m, m), 1 / m))
        np.testing.assert_allclose(even, np.broadcast_to(channels(EVEN), (m, m, 3)), atol=1e-9)
    own = weight_colours(np.eye(4))
    np.testing.assert_allclose(own[0, 0], channels(MOST))
    np.testing.assert_allclose(own[0, 1], [1, 1, 1])
    np.testing.assert_allclose(weight_colours(np.full((3, 3), np.nan))[0, 0], channels(ABSENT))
    red, green, blue = weight_colours(np.full((4, 4), -0.25))[0, 0]
    assert red > green > blue  # orange: it pushes away
    blank, some = count_colours(np.array([[0.0, 9.0]]))[0]
    np.testing.assert_allclose(blank, [1, 1, 1])
    np.testing.assert_allclose(some, channels(MOST))


def test_paper_and_page_have_the_same_scale() -> None:
    css = asset("style/colours.css")
    for name, colour in (("even", EVEN), ("most", MOST)):
        assert f"--{name}: {colour};" in css


def test_pictures_of_a_run_that_measured_nothing(tmp_path: Path) -> None:
    view = a_view(methods=("fedamp",))
    run = view["runs"][0]
    run["course"]["mean"] = run["course"]["worst"] = run["course"]["loss"] = [None] * 5
    run["course"]["silos"] = [[] for _ in range(5)]
    run["delivered"] = []
    view["silos"] = [{**silo, "held": None} for silo in view["silos"]]
    names = {path.name for path in write_figures(view, tmp_path).paths}
    assert {"silos.csv", "silo-lines-fedamp.csv", "holdings.csv"} <= names
    assert not {"silos.png", "silo-lines-fedamp.png", "holdings.png"} & names
