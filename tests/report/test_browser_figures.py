"""The pictures in a real browser: slider, toggle, hover, sorting, keyboard, and files with the numbers of the view."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from report.browsing import Opener, column, csv_of, numbers
from report.views import NAMES, a_view, attention, packed

from amity.report.figures import tables

SILO_NAMES = [name if not name.startswith("=") else f"'{name}" for name in NAMES]
"""A name that is a formula is kept from being one in a sheet."""


def fills(page_figure: str) -> str:
    return f"[...document.querySelectorAll('#{page_figure} .cells rect')].map((one) => one.getAttribute('fill'))"


def test_the_slider_moves_the_round(opened: Opener) -> None:
    view = a_view()
    page = opened(view)
    assert page.inner_text(".slider output") == "5 (latest)"
    last = page.evaluate(fills("weights"))
    page.fill("#round", "0")
    assert page.inner_text(".slider output") == "1"
    first = page.evaluate(fills("weights"))
    assert first != last and len(set(first[:20])) == 1  # round 1 is uniform, but for the silo that was not asked
    assert set(first[20:]) == {page.evaluate("amity.ink('absent')")}
    rows = csv_of(page, "weights")
    assert [numbers(row[1:]) for row in rows[1:]] == [[pytest.approx(0.2, abs=1e-5)] * 5] * 4 + [[None] * 5]
    page.focus("#round")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".slider output") == "2"
    page.keyboard.press("End")
    assert page.inner_text(".slider output") == "5 (latest)" and page.evaluate(fills("weights")) == last


def test_uniform_attention_looks_like_nothing_special(opened: Opener) -> None:
    """A matrix of even shares is nearly the colour of the paper; one silo that gets everything is nearly ink."""
    view = a_view()
    view["runs"][0]["weights"] = packed(np.full((1, 5, 5), 0.2), [1])
    view["runs"][1]["weights"] = packed(np.eye(5)[None], [1])
    for scheme in ("light", "dark"):
        page = opened(view, scheme="dark" if scheme == "dark" else "light")
        contrast = """() => {
          const hex = (name) => amity.ink(name);
          const light = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255)
            .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
            .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0.05);
          const ratio = (a, b) => Math.max(light(a), light(b)) / Math.min(light(a), light(b));
          const fills = [...document.querySelectorAll('#weights .cells rect')].map((one) => one.getAttribute('fill'));
          return [...new Set(fills)].map((fill) => ratio(fill, hex('paper')));
        }"""
        (even,) = page.evaluate(contrast)
        assert even < 1.5
        page.select_option("#ties-run", "apple")
        assert max(page.evaluate(contrast)) > 9
        assert "No tie stands out" in page.inner_text("#ties")


def test_the_toggle_puts_alike_silos_side_by_side(opened: Opener) -> None:
    page = opened(a_view())
    names = "[...document.querySelectorAll('#weights text.tick')].slice(0, 5).map((one) => one.textContent)"
    given = page.evaluate(names)
    page.click("#order-clustered")
    clustered = page.evaluate(names)
    assert clustered == [given[place] for place in (0, 2, 4, 1, 3)]
    assert page.get_attribute("#order-clustered", "aria-pressed") == "true"
    page.click("#order-given")
    assert page.evaluate(names) == given


def test_hovering_reads_out_every_method_at_a_round(opened: Opener) -> None:
    view = a_view()
    page = opened(view)
    page.locator("#curves svg").scroll_into_view_if_needed()
    box = page.locator("#curves svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.45, box["y"] + box["height"] * 0.5)
    told = page.inner_text("#curves .tip")
    round = int(told.split()[1])
    assert 1 <= round <= 5
    for run in view["runs"]:
        mean = run["course"]["mean"][round - 1]
        assert mean is not None and run["name"] in told and f"{mean:.2f} %" in told
    assert told.replace("\n", " ").split()[:2] == ["round", str(round)]
    page.mouse.move(0, 0)
    assert page.locator("#curves .tip").is_hidden()


def test_every_picture_is_read_with_the_keyboard(opened: Opener) -> None:
    view = a_view()
    page = opened(view)
    pictures = ("differences", "ArrowDown"), ("silos", "ArrowRight"), ("weights", "ArrowRight"), ("ties", "ArrowRight")
    for figure, key in (*pictures, ("traffic", "ArrowDown"), ("holdings", "ArrowRight"), ("curves", "Home")):
        page.focus(f"#{figure} svg")
        page.keyboard.press(key)
        assert page.locator(f"#{figure} .tip").is_visible() and page.inner_text("#said").strip()
        page.keyboard.press("Escape")
        assert page.locator(f"#{figure} .tip").is_hidden()
    page.focus("#silo-lines svg")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Home")
    lowest = min(range(5), key=lambda silo: view["runs"][0]["course"]["silos"][-1][silo] or 0)
    told = page.inner_text("#silo-lines .tip")
    assert told.startswith("round 1") and NAMES[lowest][:8] in told
    page.keyboard.press("ArrowRight")
    assert "no answer in 60 s" in page.inner_text("#silo-lines .tip")  # round 2 has a silo that was dropped


def test_a_heading_sorts_by_click_and_by_key(opened: Opener) -> None:
    page = opened(a_view())
    delivered = [float(text) for text in column(page, "methods-table", 2)]
    shown = delivered[:3]  # references are apart, below
    assert shown == sorted(shown, reverse=True)  # the best comes first by itself
    page.click("#methods-table-by-delivered")
    assert [float(text) for text in column(page, "methods-table", 2)][:3] == sorted(shown)
    assert "Delivered" in page.locator("#methods-table th[aria-sort=ascending]").inner_text()
    page.keyboard.press("Enter")  # the heading has kept the focus
    assert [float(text) for text in column(page, "methods-table", 2)][:3] == sorted(shown, reverse=True)
    page.click("#verdicts-by-silo")
    names = page.locator("#verdicts tbody th span").evaluate_all("list => list.map((one) => one.title)")
    order = "list => [...list].sort((a, b) => a.localeCompare(b, 'en', {numeric: true}))"
    assert names == page.evaluate(order, names) and set(names) == set(NAMES)


def test_the_keyboard_alone_reaches_every_control(opened: Opener) -> None:
    page = opened(a_view())
    reached = []
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("""() => {
              const one = document.activeElement;
              const { outlineWidth, outlineStyle } = getComputedStyle(one);
              const seen = parseFloat(outlineWidth) >= 2 && outlineStyle !== "none";
              return [one.id || one.closest("figure")?.id || one.tagName, seen];
            }""")
        )
        if reached[-1][0] == "BODY":
            break
    names = [name for name, _ in reached if name != "BODY"]
    wanted = {
        "worth-method",
        "verdicts-by-difference",
        "methods-table-by-delivered",
        "ties-run",
        "order-given",
        "round",
    }
    wanted |= {"measure", "course-run", "setup-run", "copy-command", "weights-png", "weights-csv", "curves", "ties"}
    assert wanted <= set(names)
    assert all(outlined for name, outlined in reached if name != "BODY"), "focus is visible"


def test_csv_files_have_the_numbers_of_the_view(opened: Opener) -> None:
    view = a_view()
    page = opened(view)
    rows = csv_of(page, "differences")
    worth = view["worth"][0]
    assert [row[0] for row in rows[1:]] == SILO_NAMES
    for row, silo in zip(rows[1:], worth["silos"], strict=True):
        expected = [silo["alone"], silo["shared"], silo["personal"], silo["difference"], silo["low"], silo["high"]]
        assert numbers(row[2:8]) == expected and row[8] == silo["judgement"]
    rows = csv_of(page, "curves")
    assert rows[0] == ["round", *(method["name"] for method in view["methods"])]
    for place, run in enumerate(view["runs"]):
        assert numbers([row[1 + place] for row in rows[1:]]) == run["course"]["mean"]
    rows = csv_of(page, "weights")
    found = np.array([numbers(row[1:]) for row in rows[1:]], dtype=np.float64)
    np.testing.assert_allclose(found, attention(5, 5)[-1], atol=1e-5)


def test_files_of_the_page_and_of_the_command_line_agree(opened: Opener) -> None:
    view = a_view()
    page = opened(view)
    fedamp = view["runs"][0]
    assert fedamp["weights"] is not None
    expected = {
        "differences": tables.differences(view["worth"][0]),
        "silos": tables.silos(view),
        "traffic": tables.traffic(view),
        "weights": tables.weights(view, fedamp["weights"]),
        "ties": tables.ties(view, fedamp["weights"]),
        "curves": tables.curves(view, lambda course: course["mean"]),
        "silo-lines": tables.silo_lines(view, fedamp),
        "holdings": tables.holdings(view),
    }
    figures = page.locator("figure").evaluate_all("list => list.map((one) => one.id)")
    assert sorted(figures) == sorted(expected)
    for figure, rows in expected.items():
        found = csv_of(page, figure)
        assert len(found) == len(rows), figure
        for got, wanted in zip(found, rows, strict=True):
            for text, cell in zip(got, wanted, strict=True):
                if isinstance(cell, str) or cell is None:
                    assert text.removeprefix("'") == (cell or ""), figure
                else:
                    assert float(text) == pytest.approx(cell, abs=1e-9), figure


@pytest.mark.parametrize("figure", ["differences", "weights", "curves"])
def test_a_picture_is_saved_as_png(opened: Opener, figure: str) -> None:
    page = opened(a_view(40, 5) if figure == "weights" else a_view())
    with page.expect_download() as waiting:
        page.click(f"#{figure}-png")
    assert waiting.value.suggested_filename == f"{figure}.png"
    content = Path(waiting.value.path()).read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert width > 700 and height > 400
