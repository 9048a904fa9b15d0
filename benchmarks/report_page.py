"""Report: the time that a browser takes to open report.html of several methods, from disk until all is drawn."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch
from playwright.sync_api import sync_playwright

from amity.contract import Score
from amity.federation.messages import measured
from amity.federation.reports import Progress, Round
from amity.record import Record, Recorder, read
from amity.report import write_report
from benchmarks.measure import Goal, Repeat, Work, lazily

NEEDS = ("playwright",)
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
METHODS = ("separate", "fedavg", "fedamp", "heurfedamp", "apple")
LARGE = "100 silos, 90 rounds, 5 methods"
SMALL = "20 silos, 30 rounds, 5 methods"
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"
"""Milliseconds from the beginning of the navigation to the frame after the one in which everything was drawn."""


def cases(quick: bool = False) -> dict[str, Work]:
    """Runs made of random numbers, five methods of which three have a weight for every pair of silos in every round."""
    sizes = {"4 silos, 2 rounds": (4, 2)} if quick else {SMALL: (20, 30), LARGE: (100, 90)}
    return {name: lazily(partial(prepare, silos, rounds)) for name, (silos, rounds) in sizes.items()}


def baseline(case: str) -> None:
    """Every case is another size: none is a baseline."""


def prepare(silos: int, rounds: int) -> Work:
    """Write the report once; opening it is what is timed."""
    folder = tempfile.TemporaryDirectory(prefix="amity-report-")  # goes away with the work that holds it
    records = [a_run(Path(folder.name) / method, method, silos, rounds) for method in METHODS]
    write_report(records, folder.name)
    return partial(opened, folder)


def a_run(path: Path, method: str, silos: int, rounds: int) -> Record:
    """Record a run of random numbers."""
    draw = torch.Generator().manual_seed(len(method))
    names = [f"silo {place}" for place in range(silos)]
    facts = {"data": "random", "setting": "none", "model": "none", "clients": silos, "seed": 0, "engine": "local"}
    facts |= {"version": "0", "groups": [place % 5 for place in range(silos)]}
    recorder = Recorder.create(path, {"rounds": rounds, "method": method}, names, {"method": method, **facts})
    for number in range(1, rounds + 1):
        scores = [Score(torch.rand(50, generator=draw) < 0.5 + 0.4 * number / rounds, 1.0, {}, None) for _ in names]
        attention = torch.softmax(3 * torch.randn(silos, silos, generator=draw), dim=1)
        recorder.add(
            Round(
                round=number,
                scores=[measured("", number, silo, score) for silo, score in enumerate(scores)],
                took_part=list(range(silos)),
                dropped={},
                epochs={},
                bytes_up=1_000_000,
                bytes_down=1_000_000,
                bytes_eval=0,
                seconds={"local": 1.0},
                weights=None if method in ("separate", "fedavg") else attention,
                progress=Progress(number, {}),
                warnings=[],
            ),
            [score.each for score in scores],
        )
    recorder.finish((name, {"w": torch.zeros(1)}) for name in names)
    return read(path)


def opened(folder: tempfile.TemporaryDirectory[str]) -> Mapping[str, float]:
    """Open the page in a browser of its own and return how long it took, and how large the file is."""
    path = Path(folder.name) / "report.html"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_selector("footer")
        seconds = page.evaluate(DRAWN) / 1000
        browser.close()
    return {"seconds": seconds, "MB": path.stat().st_size / 1e6}


def _seconds(case: str, repeat: Repeat) -> float:
    return repeat[case].seconds


def _size(case: str, repeat: Repeat) -> float:
    return repeat[case].figures["MB"]


GOALS = [
    Goal(f"seconds to open {LARGE}", partial(_seconds, LARGE), at_most=3.0),
    Goal(f"MB of {LARGE}", partial(_size, LARGE), at_most=15.0),
    Goal(f"MB of {SMALL}", partial(_size, SMALL), at_most=2.0),
]
