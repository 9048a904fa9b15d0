"""What a paper says of the order of its methods, judged by what was seen."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from amity import evaluate
from amity.experiments.reproduce import Results
from amity.experiments.spec import Claim
from amity.experiments.tables.layout import p_value


def claims(results: Results, columns: Sequence[str], *, briefly: bool = False) -> Iterator[str]:
    """Whether each claim of the paper was confirmed; unless `briefly`, with every comparison that says otherwise."""
    judged = [lines for claim in results.experiment.claims if (lines := _judged(claim, results, columns))]
    if judged:
        said = "What we hoped for" if results.experiment.ours else "What the paper says"
        yield f"{said}, and what was seen:"
        yield "\n".join(line for verdict, *contrary in judged for line in (verdict, *(() if briefly else contrary)))


def _judged(claim: Claim, results: Results, columns: Sequence[str]) -> list[str]:
    """The verdict, then what is contrary to the claim; nothing where nothing was compared.

    A claim holds in a comparison if the mean over silos and seeds says so; clearly, if a test does too: a paired one,
    or one of two groups where the rows differ in who holds what.
    """
    label = results.experiment.label
    held = clearly = total = 0
    against: dict[str, list[str]] = {}
    for column in columns if not claim.columns else [name for name in columns if name in claim.columns]:
        for above, below in ((a, b) for a in claim.above for b in claim.below):
            better, worse = results.paired(above, below, column)
            if not better:
                continue
            total += 1
            difference = statistics.fmean(better) - statistics.fmean(worse)
            same = _same_silos(results, above, below, column)
            p = evaluate.wilcoxon(better, worse).p if same else evaluate.rank_sum(better, worse)
            if difference > -claim.within:
                held += 1
                clearly += difference > 0 and p < 0.05
            else:
                who = results.experiment.run_label(above, column)
                against.setdefault(who, []).append(f"{label('rows', below)} {difference:+.2f} (p {p_value(p)})")
    if not total:
        return []
    partly = "confirmed in part" if 2 * held > total else "mostly not confirmed"
    verdict = "confirmed" if held == total else "not confirmed" if not held else partly
    told = f"- {claim.text}: **{verdict}** ({held} of {total} comparisons, {clearly} of them with p < 0.05)."
    return [told, *(f"  - contrary: {who} against {', '.join(others)}" for who, others in against.items())]


def _same_silos(results: Results, one: str, other: str, column: str) -> bool:
    """Whether silos of the same name hold the same data under both rows."""
    dealt = ("data", "setting", "clients", "per_silo")
    a, b = (results.seeds(row, column)[0].content["resolved"] for row in (one, other))
    return all(a.get(key) == b.get(key) for key in dealt)
