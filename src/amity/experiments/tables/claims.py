"""What a paper says of the order of its methods, judged by what was seen."""

from __future__ import annotations

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

    A claim holds in a comparison if the mean over silos and seeds says so. It is clear, for or against the claim, if a
    test says so too, after Holm's correction over all comparisons of the claim. A claim may ask for such a p-value.
    """
    experiment = results.experiment
    concerned = claim.columns or tuple(experiment.content["columns"])
    found = {
        (above, below, column): compared
        for column in columns
        if column in concerned
        for above in claim.above
        for below in claim.below
        if (compared := results.compared(above, below, column, claim.than)).one and compared.other
    }
    if not found:
        return []
    margins = {cell: compared.difference + claim.within for cell, compared in found.items()}
    adjusted = evaluate.holm([compared.test(claim.within).p for compared in found.values()])
    p = dict(zip(found, adjusted, strict=True))
    holds = {cell: margin > 0 and not p[cell] > claim.p for cell, margin in margins.items()}
    held = sum(holds.values())
    clear = [margin > 0 for cell, margin in margins.items() if p[cell] < 0.05]
    planned = len(concerned) * len(claim.above) * len(claim.below)
    of_all = "" if planned == len(found) else f" that were run, of {planned}"
    told = (
        f"({held} of {len(found)} comparisons{of_all}; {sum(clear)} clearly so, {len(clear) - sum(clear)} clearly not)"
    )
    against: dict[str, list[str]] = {}
    for (above, below, column), compared in found.items():
        if not holds[above, below, column]:
            whom = experiment.run_label(below, claim.than) if claim.than else experiment.label("rows", below)
            text = f"{whom} {compared.difference:+.2f} (p {p_value(p[above, below, column])})"
            against.setdefault(experiment.run_label(above, column), []).append(text)
    contrary = [f"  - contrary: {who} against {', '.join(others)}" for who, others in against.items()]
    return [f"- {claim.text}: **{_verdict(held, len(found))}** {told}.", *contrary]


def _verdict(held: int, total: int) -> str:
    if held in (0, total):
        return "confirmed" if held else "not confirmed"
    if 2 * held == total:
        return "confirmed in half"
    return "confirmed in part" if 2 * held > total else "mostly not confirmed"
