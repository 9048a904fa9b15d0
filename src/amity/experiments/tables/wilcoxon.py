"""P-values between all pairs of rows."""

from __future__ import annotations

import statistics
from itertools import combinations
from typing import Any

from amity import evaluate
from amity.experiments.reproduce import Results
from amity.experiments.spec import Output
from amity.experiments.tables.layout import markdown, p_value


def wilcoxon(output: Output, results: Results) -> tuple[list[str], list[dict[str, Any]]]:
    """All pairs of rows, over silos, each at its best round; several seeds give more silos."""
    rows, columns = results.axes(output)
    label = results.experiment.label
    parts = [
        "Wilcoxon signed-rank tests over silos, two-sided, each method at its best round; p-values after Holm's "
        "correction over all pairs of a data set. A + says that the row's method is the better one on average.",
    ]
    lines: list[dict[str, Any]] = []
    for column in columns:
        there = [row for row in rows if results.seeds(row, column)]
        pairs = [pair for pair in combinations(there, 2) if results.paired(*pair, column)[0]]
        if not pairs:
            continue
        tests, differences = [], []
        for one, other in pairs:
            a, b = results.paired(one, other, column)
            tests.append(evaluate.wilcoxon(a, b))
            differences.append(statistics.fmean(x - y for x, y in zip(a, b, strict=True)))
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
                texts.append(f"{'+' if difference > 0 else '−'} {p_value(p)}")
            body.append(texts)
        parts += [f"**{label('columns', column)}**", markdown(["", *(label("rows", row) for row in there)], body)]
    return parts, lines
