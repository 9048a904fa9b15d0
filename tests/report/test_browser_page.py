"""The page in a real browser: what it says, in which order, on which screens; nothing a user named is markup."""

from __future__ import annotations

import pytest
from report.browsing import Opener, column
from report.live_views import a_live_view
from report.views import EVIL, NAMES, a_view

from amity.report.contents import View

QUESTIONS = [
    "Was joining worth it?",
    "Which method?",
    "Who helps whom?",
    "How did it go?",
    "What exactly was run?",
]

CONTRAST = """([over, under]) => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [a, b] = [light(over), light(under)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""
"""The contrast of two colours as WCAG 2 defines it."""


def test_the_questions_are_answered_in_their_order(opened: Opener) -> None:
    view = a_view()
    page = opened(view)
    assert page.locator("h2").all_inner_texts() == QUESTIONS
    assert page.title() == f"Amity: {view['title']}"
    worth = view["worth"][0]
    assert page.inner_text("#answer") == worth["words"]
    counts = [int(text) for text in page.locator(".counts b").all_inner_texts()]
    assert counts == [worth["gain"], worth["level"], worth["lose"]]
    first = page.locator("#answer").bounding_box()
    assert first is not None and first["y"] < 500  # seen without scrolling


def test_the_verdicts_are_those_of_the_chosen_method(opened: Opener) -> None:
    view = a_view()
    page = opened(view)
    for worth in view["worth"]:
        page.select_option("#worth-method", worth["method"])
        assert page.inner_text("#answer") == worth["words"]
        told = {silo["silo"]: silo["words"] for silo in worth["silos"]}
        names = page.locator("#verdicts tbody th span").evaluate_all("list => list.map((one) => one.title)")
        assert (
            dict(zip(names, page.locator("#verdicts .verdict").all_text_contents(), strict=True)).keys() == told.keys()
        )
        for name, text in zip(names, column(page, "verdicts", 1), strict=True):
            assert text.endswith(told[name])


def test_what_is_level_is_said_as_level(opened: Opener) -> None:
    page = opened(a_view())
    assert "may be chance: apple. Behind: fedavg and separate." in page.inner_text("#methods .lead")
    standing = dict(zip(column(page, "methods-table", 0), column(page, "methods-table", 1), strict=True))
    assert standing == {"fedamp": "best mean", "apple": "level", "fedavg": "behind", "separate": "behind"}
    assert column(page, "methods-table", 0)[-1] == "separate"  # a reference, apart from the others


def test_a_page_without_verdicts_says_what_to_do(opened: Opener) -> None:
    view = a_view(methods=("fedamp", "fedavg"))
    page = opened(view)
    assert view["why_no_worth"] in page.inner_text("#worth")
    assert page.locator("#verdicts").count() == 0


def test_what_users_name_stays_text(opened: Opener) -> None:
    """A name that is markup, a formula or long: shown as it was written, and nothing of it runs."""
    for view in (a_view(), a_live_view()):
        page = opened(view)
        assert page.locator("img, iframe, object, embed, [onerror], [onload], [style*=expression]").count() == 0
        assert page.locator("script").count() == 2  # the view and our own
        assert page.locator("b", has_text="dog").count() == 0  # of the class <b>dog</b>
        assert EVIL in page.inner_text("#notes")
        assert page.evaluate(f"[...document.querySelectorAll('[title]')].some((one) => one.title === {EVIL!r})")


def test_no_script_but_ours_can_run(opened: Opener) -> None:
    page = opened(a_view())
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
    )
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in problem for problem in opened.problems)
    opened.problems.clear()


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("view", [a_view(), a_view(20, 30), a_live_view()], ids=["five", "twenty", "live"])
def test_nothing_is_wider_than_the_screen(opened: Opener, width: int, view: View) -> None:
    page = opened(view, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = """() => [...document.querySelectorAll("svg.picture")].filter((one) =>
      one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((one) => one.ariaLabel)"""
    assert page.evaluate(wide) == []


def test_every_verdict_is_seen_beside_its_picture(opened: Opener) -> None:
    page = opened(a_view(20, 3))
    wide, seen = page.locator("#verdicts-box").evaluate("(box) => [box.scrollWidth, box.clientWidth]")
    assert wide <= seen


@pytest.mark.parametrize("width", [1440, 390])
def test_names_do_not_lie_on_each_other(opened: Opener, width: int) -> None:
    """Along every edge of every picture: no two texts that stand upright overlap."""
    page = opened(a_view(20, 30), width)
    overlapping = page.evaluate("""() => {
      const found = [];
      for (const picture of document.querySelectorAll("svg.picture")) {
        const boxes = [...picture.querySelectorAll("text:not([transform])")].filter((one) => one.textContent.trim())
          .map((one) => [one.textContent, one.getBoundingClientRect()]);
        boxes.forEach(([text, a], place) => boxes.slice(place + 1).forEach(([other, b]) => {
          const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
          const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
          if (across > 1 && down > 4) found.push(`${picture.closest("figure")?.id}: ${text} / ${other}`);
        }));
      }
      return found;
    }""")
    assert overlapping == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(opened: Opener, scheme: str) -> None:
    page = opened(a_live_view(), scheme="dark" if scheme == "dark" else "light")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in paper[4:-1].split(",")) / 3
    assert brightness < 60 if scheme == "dark" else brightness > 220
    for place in ("#answer, .answer", ".note", "caption", ".lead", ".facts dt", "svg .tick", ".phase"):
        look = "(one) => [getComputedStyle(one).fill, getComputedStyle(one).color]"
        fill, colour = page.locator(place).first.evaluate(look)
        used = fill if "svg" in place else colour
        assert page.evaluate(CONTRAST, [used, paper]) >= 4.5, place


def test_printed_on_white_paper_whatever_the_screen_has(opened: Opener) -> None:
    page = opened(a_view(), scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(252, 251, 248)"
    even = "getComputedStyle(document.documentElement).getPropertyValue('--even')"
    assert page.evaluate(even).strip() == "#e9e7e1"


def test_a_screen_reader_finds_everything(opened: Opener) -> None:
    page = opened(a_view())
    assert page.locator("svg.picture:not([role=img])").count() == 0
    labels = page.locator("svg.picture").evaluate_all("list => list.map((one) => one.getAttribute('aria-label') || '')")
    assert labels and all(len(label) > 15 for label in labels)
    assert (
        page.locator("main table:not(.plain)").count() == page.locator("main table:not(.plain) > caption").count() > 2
    )
    assert page.locator("h1").count() == 1
    ids = page.locator("[id]").evaluate_all("list => list.map((one) => one.id)")
    assert len(ids) == len(set(ids))
    levels = page.locator("h1, h2, h3").evaluate_all("list => list.map((one) => Number(one.tagName[1]))")
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    unnamed = page.locator("button, select, input").evaluate_all(
        "list => list.filter((one) => !one.textContent.trim() && !one.ariaLabel && !one.labels?.length).length"
    )
    assert unnamed == 0
    assert page.locator("[role=status][aria-live=polite]").count() >= 1


def test_what_each_silo_has_spent_stands_in_the_table_of_silos(opened: Opener) -> None:
    view = a_view()
    run, names = view["runs"][0], [silo["name"] for silo in view["silos"]]
    spent = {name: 1 + place / 4 for place, name in enumerate(names[:-1])}  # the last one never took part
    run["privacy"] = {"silos": spent, "words": "made noisy"}
    page = opened(view)
    page.select_option("#course-run", run["name"])
    assert page.inner_text("#privacy") == f"{run['name']}: made noisy"
    page.click("#silo-sizes summary")
    assert page.inner_text("#silo-sizes summary") == "Examples of every silo, and epsilon"
    heads = page.locator("#silo-table thead th").all_inner_texts()
    told = column(page, "silo-table", heads.index(f"Epsilon, {run['name']}"))
    assert [float(text) for text in told] == [round(spent.get(name, 0.0), 2) for name in names]


def test_where_scores_cannot_be_compared_nothing_leads(opened: Opener) -> None:
    view = a_view()
    view["why_no_best"] = "These runs were not tested on the same examples"
    for method in view["methods"]:
        method["best"] = False
    assert opened(view).inner_text("#methods .lead") == "These runs were not tested on the same examples."


def test_what_a_table_has_out_of_sight_makes_no_row_taller(opened: Opener) -> None:
    view = a_view()
    view["methods"][-1]["p"] = "too few silos, never below 0.5"
    page = opened(view, width=390)
    rows = page.locator("#methods-table tbody tr:not(.apart)")
    heights = rows.evaluate_all("list => list.map((one) => one.getBoundingClientRect().height)")
    assert max(heights) < 1.5 * min(heights)
    assert view["methods"][-1]["p"] in rows.all_inner_texts()[-1]


def test_the_facts_of_a_run_and_its_command(opened: Opener) -> None:
    view = a_view()
    page = opened(view, width=390)
    page.select_option("#setup-run", "apple")
    assert page.inner_text("#command") == view["runs"][1]["command"]
    lines = page.locator("#command .whole").evaluate_all("list => list.map((one) => one.getClientRects().length)")
    assert lines and set(lines) == {1}  # no option is broken behind its hyphens
    page.click("#copy-command")
    page.wait_for_selector("#copy-command:not(:text-is('Copy'))")
    page.click("#config summary")
    assert page.locator("#config pre").inner_text().strip() == view["runs"][1]["config"].strip()
    page.select_option("#setup-run", "fedavg")
    assert page.locator("#config pre").is_visible()  # opened once, it stays open
    assert NAMES[0] in page.inner_text("#missing")
