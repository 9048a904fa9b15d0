"""The claims of a paper about the order of its methods, judged by the outcomes of our runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from amity import statistics
from amity.papers.comparison import Comparison
from amity.papers.results import Results
from amity.papers.spec import Claim
from amity.papers.tables.layout import joined_names, p_value_text
from amity.statistics import RankTest


class Judged(NamedTuple):
    """One comparison of a claim, and what it says of the claim."""

    above: str
    below: str
    column: str
    found: Comparison
    test: RankTest  # after Holm's correction over all comparisons of the claim
    holds: bool
    better: bool  # by the claim's margin, whatever p-value it asks for
    trouble: tuple[str, ...]  # why either run is no fair example of its method

    @property
    def counts(self) -> bool:
        """False for a win of, or over, a run that diverged or whose attention is another method's."""
        return not (self.holds and self.trouble)


def claims(results: Results, columns: Sequence[str], *, briefly: bool = False) -> Iterator[str]:
    """Yield the verdict on each claim of the paper; unless `briefly`, with every comparison that says otherwise."""
    judged = [
        lines for claim in results.experiment.claims if (lines := _verdict_lines(claim, results, columns, briefly))
    ]
    if judged:
        said = "What we hoped for" if results.experiment.ours else "What the paper says"
        yield f"{said}, and what was seen:"
        yield "\n".join(line for lines in judged for line in lines)


def _verdict_lines(claim: Claim, results: Results, columns: Sequence[str], briefly: bool) -> list[str]:
    """Return the verdict, then what is contrary to the claim; nothing if the claim is about other columns."""
    concerned = claim.columns or tuple(results.experiment.content["columns"])
    planned = len(concerned) * len(claim.above) * len(claim.below)
    if not (found := _judge(claim, results, concerned)):
        return [f"- {claim.text}: **not run** at this size (0 of {planned} comparisons)."]
    if not (judged := [one for one in found if one.column in columns]):
        return []
    counted = [one for one in judged if one.counts]
    held = sum(one.holds for one in counted)
    which = " and ".join(["were run"] * (len(judged) < planned) + ["count"] * (len(counted) < len(judged)))
    of_all = f" that {which}, of {planned}" if which else ""
    numbers = f"{held} of {len(counted)} comparisons{of_all}; {_clearly(counted)}"
    if not counted:
        numbers = f"no comparison counts of {len(judged)} that were run"
    sentences = [f"- {claim.text}: **{_verdict(counted)}** ({numbers}).", *_remarks(results, judged)]
    return [" ".join(sentences), *(() if briefly else _contrary(claim, results, judged))]


def _judge(claim: Claim, results: Results, columns: Iterable[str]) -> list[Judged]:
    """Judge every comparison of a claim that was run.

    A claim holds in a comparison if the mean over silos and seeds says so, or the spread. It is clear, for or against
    the claim, if a test says so too, after Holm's correction over all comparisons of the claim. A claim may ask for
    such a p-value.
    """
    found = {
        (above, below, column): compared
        for column in columns
        for above in claim.above
        for below in claim.below
        if (compared := results.compare(above, below, column, claim.than, claim.measure)) is not None
    }
    tests = statistics.family([compared.test(claim.within) for compared in found.values()])
    judged = []
    for ((above, below, column), compared), test in zip(found.items(), tests, strict=True):
        better = compared.difference + claim.within > 0
        holds = better and (claim.p >= 1 or test.p <= claim.p)
        trouble = (results.trouble(above, column), results.trouble(below, claim.than or column))
        judged.append(Judged(above, below, column, compared, test, holds, better, tuple(filter(None, trouble))))
    return judged


def _clearly(judged: Sequence[Judged]) -> str:
    """Return how many comparisons are clear, for or against the claim, or that silos are too few for any."""
    clear = [one.better for one in judged if one.test.clear]
    blind = sum(not one.test.enough for one in judged)
    if blind == len(judged):
        return "too few silos for any to be clear"
    untested = sum(math.isnan(one.test.p) for one in judged)
    parts = [
        f"{sum(clear)} clearly so, {len(clear) - sum(clear)} clearly not",
        f"{blind} with too few silos to be clear" if blind else "",
        f"{untested} not tested" if untested else "",
    ]
    return ", ".join(filter(None, parts))


def _remarks(results: Results, judged: Sequence[Judged]) -> Iterator[str]:
    """Yield what is behind the numbers: runs that are no fair example, unequal work, and missing tests."""
    troubles = dict.fromkeys(trouble for one in judged if not one.counts for trouble in one.trouble)
    if troubles:
        count = sum(not one.counts for one in judged)
        yield f"Not counted: {count} won by or against runs that diverged or degenerated ({'; '.join(troubles)})."
    evened = {
        _row_with_more_work(results, one): None for one in judged if one.found.work.ahead and one.found.work.equal
    }
    if evened:
        yield f"{joined_names(evened)} at equal work, so a round earlier."
    unequal = {_row_with_more_work(results, one): None for one in judged if not one.found.work.equal}
    if unequal:
        yield f"{joined_names(unequal)} had a local training more: the round before was not evaluated."
    if any(not one.found.kept for one in judged):
        yield "Not tested: means were kept of that round, and not the silos' values."


def _row_with_more_work(results: Results, one: Judged) -> str:
    """Return the row of a comparison that has had more local training in a round."""
    return results.experiment.label("rows", one.above if one.found.work.ahead > 0 else one.below)


def _contrary(claim: Claim, results: Results, judged: Sequence[Judged]) -> list[str]:
    """Return the comparisons that say otherwise, by the row that was to be better."""
    experiment = results.experiment
    telling = any(one.test.enough for one in judged)  # if not, the verdict says so once
    against: dict[str, list[str]] = {}
    for one in judged:
        if not one.holds:
            whom = experiment.run_label(one.below, claim.than) if claim.than else experiment.label("rows", one.below)
            number = f"{one.found.difference:+.2f}"
            if claim.measure == "spread":
                number = f"{-one.found.difference:+.2f} in spread"
            text = f"{whom} {number} ({p_value_text(one.test)})" if telling else f"{whom} {number}"
            against.setdefault(experiment.run_label(one.above, one.column), []).append(text)
    return [f"  - contrary: {who} against {', '.join(others)}" for who, others in against.items()]


def _verdict(counted: Sequence[Judged]) -> str:
    """Return the verdict in words, from the comparisons that count."""
    held, total = sum(one.holds for one in counted), len(counted)
    if not total:
        return "not judged"
    if not held:
        return "not confirmed"
    if held == total:
        return "confirmed" if any(one.test.clear for one in counted) else "confirmed, but not clearly"
    if 2 * held == total:
        return "confirmed in half"
    return "confirmed in part" if 2 * held > total else "mostly not confirmed"
