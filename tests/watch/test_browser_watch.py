"""The live page in a real browser: runs made by hand, followed without a reload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from record.rounds_by_hand import CONFIG, FACTS, a_round, add_round, record_rounds, saved_at
from watch.following import Follower
from watch.watched_folders import EVIL, begin, finish, resume

from amity.federation.events import Event
from amity.record import Recorder
from amity.watch.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def killed(recorder: Recorder) -> None:
    """Leave a directory as a process does that was killed."""
    assert recorder._lock is not None
    recorder._lock.release()


def test_a_run_from_nothing_over_its_death_to_its_end(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "run"
    with serving([path]) as address, Follower(browser, address.url) as page:
        page.shows("holds no run yet")
        recorder = begin(path)
        page.shows("0 of 4")
        recorder.listen(Event("round", 1, total=3, time=1.0))
        recorder.listen(Event("dropped", 1, "north", words="dropped before training", time=1.5))
        record_rounds(recorder, [1])
        page.shows("1 of 4", "absent", "dropped before training", "50.0")
        killed(recorder)
        page.shows("its process is gone", f"amity run --out {path} --resume")
        finish(resume(path), [2, 3, 4])
        page.shows("4 of 4", "finished")
        page.shows_anywhere("Who helps whom")  # the whole view has come too
        assert page.reloads == 0 and page.problems == []


def test_hostile_names_are_text(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / EVIL.replace("/", "_")
    recorder = Recorder.create(path, CONFIG, ["north", EVIL, "a\u202eb\n"], FACTS)
    recorder.listen(Event("round", 1, total=3, time=1.0))
    recorder.listen(Event("refused", 1, EVIL, words="<script>alert(1)</script>", time=1.5))
    add_round(recorder, 1)
    recorder.checkpoint(saved_at(1))
    with serving([path]) as address, Follower(browser, address.url) as page:
        page.shows("<img src=x", "<script>alert(1)</script>")
        assert page.problems == []


def test_the_page_comes_back_when_the_server_does(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "run"
    recorder = begin(path)
    with serving([path]) as address:
        page = Follower(browser, address.url)
        page.shows("0 of 4")
    page.connection("over")
    record_rounds(recorder, [1])
    with serving([path], port=address.port):
        page.connection("live")
        page.shows("1 of 4")
        assert page.reloads == 0
    page.close()


def test_each_run_has_its_own_mean_when_another_comes_before_it(browser: Browser, tmp_path: Path) -> None:
    """Places of runs change with the view; the live part comes first, with those of the view that is on its way."""
    record_rounds(later := begin(tmp_path / "both" / "b"), [1, 2])
    (tmp_path / "both" / "a").mkdir()
    read = """() => [...document.querySelectorAll("article.run dl")].map(
        (facts) => facts.innerText.match(/Mean accuracy\\s+(\\S+)/)[1]).join()"""
    with serving([tmp_path / "both"]) as address, Follower(browser, address.url, patience=5) as page:
        page.shows("2 of 4")
        two = page.page.evaluate(read)
        record_rounds(first := begin(tmp_path / "both" / "a"), [1])
        # At once, and not only with the next sign of life.
        page.page.wait_for_function(f"(wanted) => ({read})() === wanted", arg=f"50.0,{two}")
        assert two != "50.0" and page.problems == []
    killed(first)
    killed(later)


def test_a_token_is_asked_for_once(browser: Browser, tmp_path: Path) -> None:
    begin(tmp_path / "run")
    with serving([tmp_path / "run"], with_token=True) as address, Follower(browser, address.url) as page:
        page.shows("0 of 4")
        assert "token" not in page.page.url and page.problems == []
        assert page.page.evaluate("document.cookie") == ""  # no script can read it


def test_several_runs_side_by_side(browser: Browser, tmp_path: Path) -> None:
    record_rounds(begin(tmp_path / "both" / "fedamp"), [1, 2])
    (tmp_path / "both" / "later").mkdir()
    with serving([tmp_path / "both"]) as address, Follower(browser, address.url) as page:
        page.shows("2 of 4")
        second = begin(tmp_path / "both" / "later")
        second.add(a_round(1), [])
        page.shows("2 runs", "1 of 4", "2 of 4")
        assert page.problems == []
