"""Was joining worth it? The gain of each silo over training alone, method by method and seed by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from amity import statistics
from amity.config.options import unknown
from amity.papers.outcome import DIFFERENCE_DIGITS, FEW_SILOS
from amity.papers.results import Results
from amity.papers.spec import Output
from amity.papers.tables.layout import NO_VALUE, CsvLine, TableParts, csv_value, markdown, score_text

Gains = list[float]
"""A silo's gain in every seed, in percentage points; NaN where it has no test."""


def worth(output: Output, results: Results) -> TableParts:
    """Return for each silo how many methods gain and which gains most; then all gains, where silos are few.

    `against` names the row to gain over, `without` rows that are not among the methods, such as all data in one place.
    """
    rows, columns = results.axes(output)
    against, without = str(output.options.get("against", "separate")), tuple(output.options.get("without", ()))
    for name in (against, *without):
        if name not in results.experiment.content["rows"]:
            raise unknown(f"row in output {output.name}:", name, results.experiment.content["rows"])
    rows = [row for row in rows if row not in (against, *without)]
    parts: list[str] = []
    lines: list[CsvLine] = []
    for column in columns:
        gains = {row: found for row in rows if (found := _gains(results, row, against, column))}
        if not gains:
            continue
        parts += [f"**{results.experiment.label('columns', column)}**", *_tables_of(results, gains, against, column)]
        lines += [_csv_line(column, row, silo, of) for row, found in gains.items() for silo, of in found.items()]
    if parts:
        name = results.experiment.label("rows", against)
        parts.insert(
            0,
            f"What each silo gains over {name}, in percentage points, each method with the models that it delivers; "
            "who trains once more for its evaluation a round earlier, where that was recorded.",
        )
    return TableParts(parts, lines)


def _gains(results: Results, row: str, against: str, column: str) -> dict[str, Gains]:
    """Return the gains of each silo, over the seeds that both rows have."""
    gains: dict[str, Gains] = {}
    for run, of_silos in results.gains(row, against, column):
        for silo, gain in zip(run.silos, of_silos, strict=True):
            gains.setdefault(silo, []).append(round(gain, DIFFERENCE_DIGITS))
    return gains


def _tables_of(results: Results, gains: Mapping[str, Mapping[str, Gains]], against: str, column: str) -> list[str]:
    """Return the tables of one column: by silo, and by method where silos are few."""
    silos = list(next(iter(gains.values())))
    label = results.experiment.label
    alone = {silo: _alone(results, against, column, place) for place, silo in enumerate(silos)}
    body = []
    for silo in silos:
        of = {row: _over_seeds(found[silo]) for row, found in gains.items()}
        measured = [row for row, gain in of.items() if not math.isnan(gain.mean)]
        gaining = [row for row in measured if of[row].mean > 0]
        best = max(gaining, key=lambda row: of[row].mean, default=None)
        most = NO_VALUE if best is None else f"{label('rows', best)} {_signed(gains[best][silo])}"
        always = sum(_in_every_seed(found[silo]) for found in gains.values())
        body.append([silo, score_text(alone[silo]), f"{len(gaining)} of {len(measured)}", str(always), most])
    heads = ["", label("rows", against), "methods that gain", "in every seed", "most"]
    parts = [markdown(heads, body), _by_chance(gains)]
    if len(silos) <= FEW_SILOS:
        of_rows = [[label("rows", row), *(_signed(found[silo]) for silo in silos)] for row, found in gains.items()]
        parts.append(markdown(["", *silos], of_rows))
    return parts


def _alone(results: Results, against: str, column: str, place: int) -> statistics.Seeds:
    return statistics.over_seeds([outcome.delivered[place] for outcome in results.seeds(against, column)])


def _in_every_seed(gains: Sequence[float]) -> bool:
    return all(gain > 0 for gain in gains)


def _by_chance(gains: Mapping[str, Mapping[str, Gains]]) -> str:
    """Return a sentence on what chance alone would do: without it, the best of many looks like a finding."""
    cells = [of for found in gains.values() for of in found.values()]
    gain, lose = sum(map(_in_every_seed, cells)), sum(_in_every_seed([-value for value in of]) for of in cells)
    coins = math.fsum(0.5 ** len(of) for of in cells)
    return (
        f"Of {len(cells)} pairs of a method and a silo, {gain} gain in every seed and {lose} lose in every seed; "
        f"tossed coins would in {coins:.1f} each. The best of many methods at one silo is no promise."
    )


def _over_seeds(gains: Sequence[float]) -> statistics.Seeds:
    mean, deviation = statistics.over_seeds(gains)
    return statistics.Seeds(round(mean, DIFFERENCE_DIGITS) + 0.0, deviation)  # no -0.00


def _signed(gains: Sequence[float]) -> str:
    """Return a gain with its sign, in bold where it is above 0 in every seed."""
    found = _over_seeds(gains)
    if math.isnan(found.mean):
        return NO_VALUE
    told = f"{found.mean:+.2f}" + ("" if math.isnan(found.deviation) else f" ± {found.deviation:.2f}")
    return f"**{told}**" if _in_every_seed(gains) else told


def _csv_line(column: str, row: str, silo: str, gains: Sequence[float]) -> CsvLine:
    found = _over_seeds(gains)
    measured = [gain for gain in gains if not math.isnan(gain)]
    return {
        "column": column,
        "row": row,
        "silo": silo,
        "gain": csv_value(found.mean),
        "gain_sd": csv_value(found.deviation),
        "seeds": len(measured),
        "seeds_that_gain": sum(gain > 0 for gain in measured),
        "seeds_that_lose": sum(gain < 0 for gain in measured),
    }
