"""Figures drawn from made-up results, and their panels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image

from amity.papers.figures import DRAWINGS, style
from amity.papers.figures.view import View
from amity.papers.results import Results
from amity.papers.spec import Output

ROWS: dict[str, Any] = {"separate": {"label": "Separate"}, "fedavg": {}, "fedamp": {"label": "FedAMP"}}
COLUMNS: dict[str, Any] = {"left": {"label": "LEFT"}, "right": {"setting": "pathological"}}
GROUPS = (0, 1, 0, 1, 2, 2, 0, 1)


def figure(kind: str, found: Results, **options: Any) -> Any:
    """Return a figure of this kind, drawn with these options."""
    with style.look():
        return DRAWINGS[kind](View(Output(kind, "it", options=options), found))


def panels(drawn: Any) -> list[Any]:
    """Return the panels with something in them; an empty place holds the legend."""
    return [axes for axes in drawn.axes if axes.axison]


def not_blank(path: Path) -> bool:
    """Return True for a picture of more than a few colours."""
    with Image.open(path) as image:
        return len(image.convert("RGB").getcolors(maxcolors=10**7) or []) > 10
