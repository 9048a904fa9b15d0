"""The live page: views that follow each other are drawn without losing the reader's place."""

from __future__ import annotations

from report.browsing import Opener
from report.live_views import a_live_view
from report.views import NAMES, a_view

RENDER = "(view) => window.amity.render(view)"


def test_a_new_view_keeps_the_readers_place(opened: Opener) -> None:
    page = opened(a_view(rounds=4))
    page.select_option("#worth-method", "apple")
    page.click("#config summary")
    page.fill("#round", "1")
    page.click("#methods-table-by-worst")
    page.locator("#curves").scroll_into_view_if_needed()
    page.focus("#measure")
    before = page.evaluate("window.scrollY")
    assert before > 0
    newer = a_view(rounds=6)
    page.evaluate(RENDER, newer)
    assert page.input_value("#worth-method") == "apple"
    assert page.inner_text("#answer") == newer["worth"][1]["words"]
    assert page.locator("#config pre").is_visible()
    assert page.inner_text(".slider output") == "2"  # where the reader had put it
    assert page.get_attribute("#round", "max") == "5"
    assert "Worst" in page.locator("#methods-table th[aria-sort=descending]").inner_text()
    assert page.evaluate("document.activeElement.id") == "measure"
    assert abs(page.evaluate("window.scrollY") - before) < 2


def test_the_slider_follows_the_latest_round_where_it_is_at_the_end(opened: Opener) -> None:
    page = opened(a_view(rounds=4))
    assert page.inner_text(".slider output") == "4 (latest)"
    page.evaluate(RENDER, a_view(rounds=6))
    assert page.inner_text(".slider output") == "6 (latest)"


def test_what_was_scrolled_inside_its_box_stays_so(opened: Opener) -> None:
    page = opened(a_live_view(round=2, silos=40))
    page.locator("#live-silos-0-box").evaluate("(box) => box.scrollTo(0, 300)")
    page.focus("#live-silos-0-box")
    page.evaluate(RENDER, a_live_view(round=3, silos=40))
    assert page.locator("#live-silos-0-box").evaluate("(box) => box.scrollTop") == 300
    assert page.evaluate("document.activeElement.id") == "live-silos-0-box"


def test_a_part_that_has_not_changed_is_left_alone(opened: Opener) -> None:
    view = a_view()
    page = opened(view)
    page.evaluate("document.querySelector('#verdicts').dataset.mine = 'yes'")
    page.evaluate(RENDER, {**view, "made": view["made"] + 1})
    assert page.get_attribute("#verdicts", "data-mine") == "yes"


def test_nothing_is_replaced_under_a_finger(opened: Opener) -> None:
    page = opened(a_view(rounds=4))
    page.locator("#round").scroll_into_view_if_needed()
    page.hover("#round")
    page.mouse.down()
    page.evaluate(RENDER, a_view(rounds=6))
    assert page.get_attribute("#round", "max") == "3"
    page.mouse.up()
    assert page.get_attribute("#round", "max") == "5"


def test_what_goes_on_is_at_the_top_in_words(opened: Opener) -> None:
    page = opened(a_live_view(round=2))
    assert page.locator("h2").first.inner_text() == "Right now"
    assert "about 1 min 15 s left" in page.inner_text("#live-words")
    words = page.inner_text("#live-0")
    assert "Round\n2 of 5" in words and "running" in words
    for state in ("uploaded", "training", "absent", "refused"):
        assert state in words
    health = [text.split("\n") for text in page.locator("#live-0 .health").all_inner_texts()]
    assert [word for word, _ in health] == ["well", "well", "silent", "late", "well"]
    assert [ago for _, ago in health] == ["5 s ago", "5 s ago", "3 min 20 s ago", "5 s ago", "5 s ago"]
    assert page.locator("#live-0 svg.spark").count() == 5
    assert page.locator("#live-1 .phase").inner_text() == "interrupted"
    assert f"{NAMES[0]}: round 2 uploaded, 2.3 MB" in page.inner_text("[role=log]")
    page.click("#log-0 summary")
    assert NAMES[1] in page.inner_text("#log-0 pre")


def test_where_no_silo_gives_a_sign_of_life_there_is_no_column_for_it(opened: Opener) -> None:
    """Silos of a simulation live in its own process; on a phone their scores had no room."""
    view = a_live_view()
    assert view["live"] is not None
    for silo in view["live"]["runs"][0]["silos"]:
        silo["health"], silo["seen"] = "none", None
    heads = opened(view).locator("#live-silos-0 thead th").all_inner_texts()
    assert heads == ["Silo", "State", "Last rounds"]


def test_the_live_part_moves_on_and_goes_away(opened: Opener) -> None:
    page = opened(a_live_view(round=2))
    page.click("#log-0 summary")
    page.evaluate(RENDER, a_live_view(round=3))
    assert "3 of 5" in page.inner_text("#live-0") and page.locator("#log-0 pre").is_visible()
    assert page.locator("#live-0 progress").get_attribute("value") == "3"
    page.evaluate(RENDER, a_view())
    assert page.locator("#live").count() == 0 and page.locator("#answer").is_visible()


def test_a_page_without_anything_yet(opened: Opener) -> None:
    view = a_live_view()
    assert view["live"] is not None
    view["live"]["runs"], view["live"]["feed"] = [], []
    page = opened({**view, "runs": [], "methods": [], "worth": [], "silos": [], "notes": []})
    assert "Nothing has begun yet." in page.inner_text("#live-words")


def test_a_run_without_a_record_has_its_silos_counted_and_no_empty_part(opened: Opener) -> None:
    """A federation that has just begun: its silos are seen, nothing is on record."""
    view = a_live_view(silos=3)
    page = opened({**view, "runs": [], "silos": [], "notes": [], "worth": [], "methods": []})
    assert "3 silos" in page.inner_text(".facts-line")
    assert page.locator("#setup").count() == 0 and page.locator("#live").count() == 1
