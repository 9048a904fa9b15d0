"""The verdicts on the terminal: the answer in a sentence, and a row for each silo."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from amity.metric import METRICS
from amity.report.contents import SiloVerdict, WorthView

MOST = 20
"""Silos that have a row each; of more, the worst ones are shown."""

WORST = 5


def verdict_table(worth: WorthView) -> RenderableType:
    """Return the answer of one method, with a row for each silo, or for those that it serves worst."""
    rows = shown(worth)
    texts = [Text(worth["words"], style="bold"), Text(worth["chance"])]
    if "recovered" in worth:  # where the data were also trained on in one place
        texts.append(Text(f"{worth['method']}: {worth['recovered']['words']}."))
    texts.append(Text(worth.get("choice", "")))
    left_out = len(worth["silos"]) - len(rows)
    if left_out:
        texts.append(Text(f"The {len(rows)} silos that {worth['method']} serves worst; the report has all of them."))
    return Group(*(text for text in texts if text.plain), _table(worth, rows))


def shown(worth: WorthView) -> list[SiloVerdict]:
    """Return the silos with a row of their own: all, or those with the worst differences."""
    if len(worth["silos"]) <= MOST:
        return list(worth["silos"])
    known = [one for one in worth["silos"] if one["difference"] is not None]
    return sorted(known, key=lambda one: one["difference"] or 0.0)[:WORST]


def _table(worth: WorthView, rows: list[SiloVerdict]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    metric = METRICS[worth.get("score", "accuracy")]
    named = ["Alone", *(["Global"] if worth["shared"] else []), "Personal"]
    unit = f" {'' if metric.usual else f'{metric.short} '}{metric.unit}".rstrip()
    difference = "Difference" if metric.unit else f"Smaller {metric.short}, %"
    heads = [*(f"{name}{unit}" for name in named), difference, "95 % interval", "n"]
    table.add_column("Silo", no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("Verdict", no_wrap=True)
    for one in rows:
        numbers = [one["alone"], *([one["shared"]] if worth["shared"] else []), one["personal"]]
        shown = ["–" if value is None else f"{value:.1f}" if metric.unit else metric.digits(value) for value in numbers]
        texts = [*shown, _signed(one["difference"], 1), _interval(one)]
        examples = "–" if one["examples"] is None else f"{one['examples']:,}"
        table.add_row(*(Text(text) for text in (one["silo"], *texts, examples, one["words"])))
    return table


def _signed(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:+.{digits}f}"


def _interval(one: SiloVerdict) -> str:
    return "–" if one["low"] is None else f"{_signed(one['low'], 1)} to {_signed(one['high'], 1)}"
