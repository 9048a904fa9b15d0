"""P-values between all pairs of rows, over silos."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from amity import statistics
from amity.papers.comparison import Comparison
from amity.papers.results import Results
from amity.papers.spec import Output
from amity.papers.tables.claims import claims
from amity.papers.tables.layout import NO_VALUE, CsvLine, TableParts, csv_value, markdown
from amity.papers.tables.work import local_work
from amity.statistics import RankTest

TOO_FEW = "too few"


class Tested(NamedTuple):
    """A pair of rows, compared and tested."""

    found: Comparison
    test: RankTest
    adjusted: RankTest  # after Holm's correction over all pairs of a column


def wilcoxon(output: Output, results: Results) -> TableParts:
    """Return the tests of all pairs of rows over silos, each row at its best round; several seeds give more silos."""
    rows, columns = results.axes(output)
    parts = [
        "Wilcoxon signed-rank tests over silos, two-sided, each method at its best round; p-values after Holm's "
        "correction over all pairs of a data set. A + says that the row's method is the better one on average.",
    ]
    if all(other.kind != "table" for other in results.experiment.outputs):  # that table has both already
        parts += [*claims(results, columns), *local_work(results, rows, columns)]
    tested = {column: _test_pairs(results, rows, column) for column in columns}
    if any(not one.found.paired for pairs in tested.values() for one in pairs.values()):
        parts.append("Rows whose silos hold different data are compared as groups, by Mann and Whitney's ranks.")
    for column, pairs in tested.items():
        parts += _table(results, rows, column, pairs)
    lines = [_csv_line(column, *pair, one) for column, pairs in tested.items() for pair, one in pairs.items()]
    return TableParts(parts, lines)


def _test_pairs(results: Results, rows: Sequence[str], column: str) -> dict[tuple[str, str], Tested]:
    both = {pair: results.compare(*pair, column) for pair in combinations(rows, 2)}
    found = {pair: compared for pair, compared in both.items() if compared is not None}
    tests = [compared.test() for compared in found.values()]
    adjusted = statistics.family(tests)
    return {pair: Tested(found[pair], *two) for pair, *two in zip(found, tests, adjusted, strict=True)}


def _table(
    results: Results, rows: Sequence[str], column: str, pairs: Mapping[tuple[str, str], Tested]
) -> Iterator[str]:
    """Yield the table of signs and p-values, and what its marks mean."""
    if not pairs:
        return
    label = results.experiment.label
    there = [row for row in rows if any(row in pair for pair in pairs)]
    body = [[label("rows", one), *(_cell(pairs, one, other) for other in there)] for one in there]
    yield f"**{label('columns', column)}**"
    yield markdown(["", *(label("rows", row) for row in there)], body)
    if few := [one.adjusted.least for one in pairs.values() if not one.adjusted.enough]:
        yield f"{TOO_FEW.capitalize()}: p is never below {min(few):.3g} with so few silos, whatever is seen."
    if any(not one.found.kept for one in pairs.values()):
        yield f"{NO_VALUE}: at equal work means were kept, and no silos' values to test."
    if any(not one.found.work.equal for one in pairs.values()):
        yield "†: one of the two had a local training more, and was not evaluated a round earlier."


def _cell(pairs: Mapping[tuple[str, str], Tested], one: str, other: str) -> str:
    found = pairs.get((one, other)) or pairs.get((other, one))
    if found is None:
        return ""
    difference = found.found.difference * (1 if (one, other) in pairs else -1)
    sign = "=" if abs(difference) < 1e-9 else "+" if difference > 0 else "−"
    p = str(found.adjusted) if found.adjusted.enough else TOO_FEW
    return f"{sign} {p}" + ("" if found.found.work.equal else " †")


def _csv_line(column: str, one: str, other: str, tested: Tested) -> CsvLine:
    found, test, adjusted = tested
    p, after, least = ("" if math.isnan(n) else f"{n:.3g}" for n in (test.p, adjusted.p, adjusted.least))
    return {
        "column": column,
        "row": one,
        "other": other,
        "mean_difference": f"{found.difference:.4f}",
        "p": p,
        "p_holm": after,
        "least_holm": least,
        "zeros": test.zeros,
        "trainings_ahead": csv_value(0.0 if found.work.equal else found.work.ahead),
    }
