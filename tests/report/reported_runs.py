"""Runs made by hand for reports, with names that try to break out of a page, and a reader of such pages."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import torch

from amity.contract import Score
from amity.federation.messages import measured
from amity.federation.reports import Progress, Round
from amity.record import Manifest, Record, Recorder, read
from amity.report.contents import View
from amity.report.series import series_of

EVIL = "<img src=x onerror=alert(1)></script>"
SILOS = ["a", EVIL, "c", 'd"']
GROUPS = [1, 0, 1, 0]


def a_run(
    path: Path,
    method: str,
    right: list[tuple[int, ...]],
    weights: torch.Tensor | None = None,
    *,
    groups: list[int] | None = GROUPS,
    finish: bool = True,
    seed: int = 0,
    metrics: dict[str, float] | None = None,
    val: float | None = None,
    manifest: Manifest | None = None,
) -> Record:
    facts = dict(data="digits", setting=EVIL, model="mlp", clients=4, seed=seed, engine="simulate", version="0.1")
    config = {"rounds": len(right), "method": method, "note": EVIL}
    recorder = Recorder.create(path, config, SILOS, {"method": method, "groups": groups, **facts}, manifest=manifest)
    for number, counts in enumerate(right, start=1):
        scores = [Score(torch.arange(10) < count, 1.0, metrics or {}, val) for count in counts]
        recorder.add(
            Round(
                round=number,
                scores=[measured("", number, silo, score) for silo, score in enumerate(scores)],
                took_part=[0, 1, 2, 3],
                dropped={},
                epochs={},
                bytes_up=1_000_000,
                bytes_down=2_000_000,
                bytes_eval=500_000,
                seconds={"local": 1.0},
                weights=weights,
                progress=Progress(number, {}),
                warnings=[],
            ),
            [score.each for score in scores],
        )
    if finish:
        recorder.finish((silo, {"w": torch.zeros(1)}) for silo in SILOS)
    return read(path)


class Page(HTMLParser):
    """The elements of a page, the text outside scripts, and the view that it draws."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        self.view: View = json.loads(self.scripts[0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "script":
            self.scripts.append("")
        for key, value in attrs:
            if key == "id":
                self.ids.append(value or "")
            if key in ("src", "href"):
                self.addresses.append(value or "")
            if key.startswith("on"):
                self.handlers.append(key)

    def handle_data(self, data: str) -> None:
        if self.tags and self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.text += data


MANIFEST: Manifest = {
    "data": "digits",
    "setting": EVIL,
    "classes": 3,
    "notes": ["class 0 ran out"],
    "sha256": "0123456789abcdef0123",
    "silos": [
        {"name": "a", "group": 0, "train": [4, 0, 1], "val": None, "test": [2, 0, 1]},
        {"name": EVIL, "group": 0, "train": [8, 0, 9], "val": [1, 0, 0], "test": [3, 0, 3]},
        {"name": "c", "group": 1, "train": [0, 25, 0], "val": None, "test": [0, 7, 0]},
    ],
}


def labels(records: list[Record]) -> list[str]:
    return [one.name for one in series_of(records)]
