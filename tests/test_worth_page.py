"""docs/worth.md says of the suite what is recorded: its tables are columns of those that docs/reproduce.md has."""

from __future__ import annotations

from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
SHOWN = ("federations", "gain recovered, %", "harmed, %", "mean rank", "first", "below alone", "regret")


def table_after(text: str, heading: str) -> dict[str, dict[str, str]]:
    """Return the first table after a heading: its rows by their first cell, cells by the head of their column."""
    lines = text.partition(heading)[2].strip("\n").splitlines()
    rows = lines[next(place for place, line in enumerate(lines) if line.startswith("|")) :]
    end = next((place for place, line in enumerate(rows) if not line.startswith("|")), len(rows))
    heads, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in rows[:end]]
    return {cells[0]: dict(zip(heads[1:], cells[1:], strict=True)) for cells in body}


@pytest.mark.parametrize("half", ["judging", "development"])
def test_its_tables_are_what_is_recorded(half: str) -> None:
    page = (DOCS / "worth.md").read_text(encoding="utf-8")
    shown = table_after(page, f"### The {half} half")
    suite = (DOCS / "reproduce.md").read_text(encoding="utf-8").partition("\n## worth. ")[2]
    recorded = table_after(suite, f"**The {half} half**")
    assert shown == {row: {head: cells[head] for head in SHOWN} for row, cells in recorded.items()}
    gains = [float(cells["gain recovered, %"]) for cells in shown.values() if cells["gain recovered, %"] != "–"]
    assert gains == sorted(gains, reverse=True)
