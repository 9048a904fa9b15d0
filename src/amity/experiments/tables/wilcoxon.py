"""P-values between all pairs of rows."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from amity import evaluate
from amity.experiments.reproduce import Results
from amity.experiments.spec import Output
from amity.experiments.tables.claims import claims
from amity.experiments.tables.layout import markdown, p_value


def wilcoxon(output: Output, results: Results) -> tuple[list[str], list[dict[str, Any]]]:
    """All pairs of rows, over silos, each at its best round; several seeds give more silos."""
    rows, columns = results.axes(output)
    label = results.experiment.label
    parts = [
        "Wilcoxon signed-rank tests over silos, two-sided, each method at its best round; p-values after Holm's "
        "correction over all pairs of a data set. A + says that the row's method is the better one on average.",
    ]
    if all(other.kind != "table" for other in results.experiment.outputs):  # claims are told once
        parts += claims(results, columns)
    lines: list[dict[str, Any]] = []
    apart = False
    for column in columns:
        there = [row for row in rows if results.seeds(row, column)]
        compared = {pair: results.compared(*pair, column) for pair in combinations(there, 2)}
        compared = {pair: found for pair, found in compared.items() if found.one and found.other}
        if not compared:
            continue
        apart = apart or not all(found.paired for found in compared.values())
        pairs, tests = list(compared), [found.test() for found in compared.values()]
        differences = [found.difference for found in compared.values()]
        adjusted = evaluate.holm([test.p for test in tests])
        table = {pair: (p, d) for pair, p, d in zip(pairs, adjusted, differences, strict=True)}
        for (one, other), test, p, difference in zip(pairs, tests, adjusted, differences, strict=True):
            lines.append(
                {
                    "column": column,
                    "row": one,
                    "other": other,
                    "mean_difference": f"{difference:.4f}",
                    "p": f"{test.p:.3g}",
                    "p_holm": f"{p:.3g}",
                    "zeros": test.zeros,
                }
            )
        body = []
        for one in there:
            texts = [label("rows", one)]
            for other in there:
                if (one, other) in table:
                    p, difference = table[one, other]
                elif (other, one) in table:
                    p, difference = table[other, one][0], -table[other, one][1]
                else:
                    texts.append("")
                    continue
                sign = "=" if abs(difference) < 1e-9 else "+" if difference > 0 else "−"
                texts.append(f"{sign} {p_value(p)}")
            body.append(texts)
        parts += [f"**{label('columns', column)}**", markdown(["", *(label("rows", row) for row in there)], body)]
    if apart:
        parts.insert(1, "Rows whose silos hold different data are compared as groups, by Mann and Whitney's ranks.")
    return parts, lines
