"""Tables of an experiment, in Markdown for readers and CSV for programs: the paper's value beside ours."""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from amity import evaluate
from amity.evaluate import Seeds
from amity.experiments.outcome import Outcome
from amity.experiments.reproduce import Results
from amity.experiments.spec import Claim, Output
from amity.record import replacing

NONE = "–"
KINDS = ("table", "wilcoxon", "cost")

LONG = (
    "row",
    "column",
    "paper",
    "bmta",
    "bmta_sd",
    "last",
    "validated",
    "worst",
    "spread",
    "block_score",
    "seeds",
    "chosen",
    "rounds",
    "clients",
    "seconds",
    "peak_gib",
)
"""The columns of a table's CSV file."""

COST = ("row", "column", "silos", "rounds", "seconds", "peak_gib", "bytes_up", "bytes_down")
"""The columns of a CSV file about costs."""


def write(output: Output, results: Results, folder: Path) -> list[Path]:
    """Write one table; gives the files. Nothing is written where nothing is recorded."""
    if not results.outcomes:
        return []
    parts, lines = made(output, results)
    text = "\n\n".join([f"# {results.experiment.title}", *heading(results), *parts]) + "\n"
    files = {folder / f"{output.name}.md": text, folder / f"{output.name}.csv": _csv(lines)}
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(content, encoding="utf-8")
    return list(files)


def made(output: Output, results: Results) -> tuple[list[str], list[dict[str, Any]]]:
    """A table as paragraphs of Markdown, and as lines of a CSV file."""
    make = {"table": _table, "wilcoxon": _wilcoxon, "cost": _cost}[output.kind]
    return make(output, results)


def _csv(lines: Sequence[Mapping[str, Any]]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(lines[0]) if lines else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def heading(results: Results) -> list[str]:
    """What a reader must know before the numbers, as paragraphs."""
    experiment, size = results.experiment, results.size
    done = sum(len(outcomes) for outcomes in results.outcomes.values())
    planned = sum(cell.seeds for cell in experiment.cells(size))
    parts = [f"{experiment.paper}. `amity reproduce {experiment.name} --size {size}`."]
    if experiment.note(size):
        parts.append(f"Size `{size}`: {experiment.note(size)}.")
    if experiment.expect:
        parts.append(f"Expected: {experiment.expect}.")
    if done < planned:
        parts.append(f"{done} of {planned} runs are recorded so far.")
    return [*parts, *_notes(results), *_warnings(results)]


def _notes(results: Results) -> Iterator[str]:
    """What is to be known about the data, and of which runs where it is not all of a data set's."""
    cells: dict[str, list[tuple[str, str]]] = {}
    for cell, outcomes in results.outcomes.items():
        for note in _over_seeds({note for one in outcomes for note in one.content["notes"]}):
            cells.setdefault(note, []).append(cell)
    for note, concerned in sorted(cells.items()):
        columns = {column for _, column in concerned}
        everybody = sum(column in columns for _, column in results.outcomes)
        runs = "; ".join(results.experiment.run_label(*cell) for cell in concerned)
        yield f"Data: {note}." if len(concerned) == everybody else f"Data: {note}. Said by {runs}."


_NUMBER = re.compile(r"\b\d[\d,]*(?:\.\d+)?\b")


def _over_seeds(notes: Iterable[str]) -> Iterator[str]:
    """Notes that differ in their numbers alone become one, with the least and the largest of each."""
    alike: dict[tuple[str, ...], list[list[str]]] = {}
    for note in sorted(notes):
        alike.setdefault(tuple(_NUMBER.split(note)), []).append(_NUMBER.findall(note))
    for texts, numbers in alike.items():
        spans = (sorted(set(several), key=_value) for several in zip(*numbers, strict=True))
        told = [span[0] if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans]
        yield "".join(text + number for text, number in zip(texts, [*told, ""], strict=True))


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _warnings(results: Results) -> Iterator[str]:
    """What the runs said aloud, and which of them did."""
    said: dict[str, list[str]] = {}
    for cell, outcomes in results.outcomes.items():
        for warning in sorted({warning for one in outcomes for warning in one.content["warnings"]}):
            count = sum(warning in one.content["warnings"] for one in outcomes)
            seeds = f" ({count} of {len(outcomes)} seeds)" if len(outcomes) > 1 else ""
            said.setdefault(warning, []).append(f"{results.experiment.run_label(*cell)}{seeds}")
    for warning, runs in said.items():
        yield f"Warning: {warning}. Said by {'; '.join(runs)}."


def _axes(output: Output, results: Results) -> tuple[list[str], list[str]]:
    rows = [row for row in results.rows if not output.rows or row in output.rows]
    columns = [column for column in results.columns if not output.columns or column in output.columns]
    return rows, columns


def _table(output: Output, results: Results) -> tuple[list[str], list[dict[str, Any]]]:
    rows, columns = _axes(output, results)
    experiment = results.experiment
    named = {column: experiment.label("columns", column) for column in columns}
    with_paper = [c for c in columns if any(experiment.reported(row, c) is not None for row in rows)]
    heads = [""] + [text for c in columns for text in ([named[c], "paper"] if c in with_paper else [named[c]])]
    found = {(r, c): evaluate.over_seeds([o.bmta for o in results.seeds(r, c)]) for r in rows for c in columns}
    best = {
        c: max((found[r, c].mean for r in rows if found[r, c].mean == found[r, c].mean), default=0) for c in columns
    }
    body = []
    for row in rows:
        texts = [experiment.label("rows", row)]
        for column in columns:
            summary = found[row, column]
            texts.append(f"**{summary}**" if summary.mean == best[column] else _text(summary))
            if column in with_paper:
                texts.append(_reported(experiment.reported(row, column)))
        body.append(texts)
    parts = [
        "Best mean test accuracy over rounds (BMTA), in percent" + _seeds_note(results) + ".",
        markdown(heads, body),
        *claims(results, columns),
        *_more(results, rows, columns),
    ]
    return parts, list(_long(results, rows, columns))


def _reported(value: float | str | None) -> str:
    return NONE if value is None else value if isinstance(value, str) else f"{value:.2f}"


def _seeds_note(results: Results) -> str:
    most = max(len(outcomes) for outcomes in results.outcomes.values())
    return f", mean and standard deviation over up to {most} seeds" if most > 1 else ", one seed"


def claims(results: Results, columns: Sequence[str], *, briefly: bool = False) -> Iterator[str]:
    """Whether each claim of the paper was confirmed; unless `briefly`, with every comparison that says otherwise."""
    judged = [lines for claim in results.experiment.claims if (lines := _judged(claim, results, columns))]
    if judged:
        yield "What the paper says, and what was seen:"
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
            better, worse = _paired(results, above, below, column)
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
                against.setdefault(who, []).append(f"{label('rows', below)} {difference:+.2f} (p {_p(p)})")
    if not total:
        return []
    partly = "confirmed in part" if 2 * held > total else "mostly not confirmed"
    verdict = "confirmed" if held == total else "not confirmed" if not held else partly
    told = f"- {claim.text}: **{verdict}** ({held} of {total} comparisons, {clearly} of them with p < 0.05)."
    return [told, *(f"  - contrary: {who} against {', '.join(others)}" for who, others in against.items())]


def _more(results: Results, rows: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """What BMTA, which selects a round on test data, does not tell."""
    heads = ["", "", "last round", "chosen by validation", "worst silo", "spread", "block score"]
    body = []
    for column in columns:
        for row in rows:
            outcomes = results.seeds(row, column)
            if not outcomes:
                continue
            labels = [results.experiment.label("columns", column), results.experiment.label("rows", row)]
            numbers = [
                evaluate.over_seeds([o.last for o in outcomes]),
                evaluate.over_seeds([o.validated for o in outcomes]),
            ]
            numbers += [evaluate.over_seeds(_at_best(outcomes, key)) for key in ("worst", "spread")]
            score = evaluate.over_seeds([o.block_score for o in outcomes if o.block_score is not None])
            body.append([*labels, *(_text(number) for number in numbers), _score(score)])
    yield "The last round, the round that validation data chose, and the silos at the best round:"
    yield markdown(heads, body)
    if results.chosen:
        texts = [_choice(results, row, column, value) for (row, column), value in results.chosen.items()]
        yield f"Chosen on validation data: {'; '.join(texts)}."


def _choice(results: Results, row: str, column: str, value: Any) -> str:
    experiment = results.experiment
    choice = experiment.cell(results.size, row, column).choice
    option = "" if choice is None else choice.option.removeprefix("set.")
    return f"{experiment.run_label(row, column)} {option} = {value}"


def _score(score: Seeds) -> str:
    return "> 10,000" if score.mean > 10_000 else _text(score)


def _text(score: Seeds) -> str:
    return NONE if math.isnan(score.mean) else str(score)


def _at_best(outcomes: Sequence[Outcome], key: str) -> list[float]:
    values = [outcome.content["best"][key] for outcome in outcomes]
    return [math.nan if value is None else value for value in values]


def _long(results: Results, rows: Sequence[str], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    for column in columns:
        for row in rows:
            outcomes = results.seeds(row, column)
            if not outcomes:
                continue
            bmta = evaluate.over_seeds([o.bmta for o in outcomes])
            peaks = [o.content["peak_gib"] for o in outcomes if o.content["peak_gib"] is not None]
            values = (
                row,
                column,
                results.experiment.reported(row, column),
                bmta.mean,
                bmta.deviation,
                evaluate.over_seeds([o.last for o in outcomes]).mean,
                evaluate.over_seeds([o.validated for o in outcomes]).mean,
                evaluate.over_seeds(_at_best(outcomes, "worst")).mean,
                evaluate.over_seeds(_at_best(outcomes, "spread")).mean,
                evaluate.over_seeds([o.block_score for o in outcomes if o.block_score is not None]).mean,
                len(outcomes),
                results.chosen.get((row, column)),
                len(outcomes[0].rounds["round"]),
                len(outcomes[0].silos),
                sum(o.seconds for o in outcomes),
                max(peaks, default=None),
            )
            yield dict(zip(LONG, (_cell(value) for value in values), strict=True))


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def _cost(output: Output, results: Results) -> tuple[list[str], list[dict[str, Any]]]:
    """What runs need; of several seeds the mean of each number, of memory the most."""
    rows, columns = _axes(output, results)
    heads = ["", "silos", "rounds", "minutes", "minutes per round", "peak memory, GiB", "GB up", "GB down"]
    body, lines = [], []
    for row, column in ((row, column) for column in columns for row in rows):
        outcomes = results.seeds(row, column)
        if not outcomes:
            continue
        silos, rounds = len(outcomes[0].silos), len(outcomes[0].rounds["round"])
        seconds, up, down = (
            statistics.fmean(one.content[key] for one in outcomes) for key in ("seconds", "bytes_up", "bytes_down")
        )
        peak = max((one.content["peak_gib"] for one in outcomes if one.content["peak_gib"] is not None), default=None)
        numbers = [seconds / 60, seconds / 60 / rounds, math.nan if peak is None else peak]
        texts = [NONE if math.isnan(number) else f"{number:.1f}" for number in numbers]
        texts = [str(silos), str(rounds), *texts, f"{up / 1e9:.2f}", f"{down / 1e9:.2f}"]
        body.append([results.experiment.run_label(row, column), *texts])
        values = (row, column, silos, rounds, seconds, peak, up, down)
        lines.append(dict(zip(COST, (_cell(value) for value in values), strict=True)))
    return [markdown(heads, body), "Memory is the most that the process held."], lines


def _wilcoxon(output: Output, results: Results) -> tuple[list[str], list[dict[str, Any]]]:
    """All pairs of rows, over silos, each at its best round; several seeds give more silos."""
    rows, columns = _axes(output, results)
    label = results.experiment.label
    parts = [
        "Wilcoxon signed-rank tests over silos, two-sided, each method at its best round; p-values after Holm's "
        "correction over all pairs of a data set. A + says that the row's method is the better one on average.",
    ]
    lines: list[dict[str, Any]] = []
    for column in columns:
        there = [row for row in rows if results.seeds(row, column)]
        pairs = [pair for pair in combinations(there, 2) if _paired(results, *pair, column)[0]]
        if not pairs:
            continue
        tests, differences = [], []
        for one, other in pairs:
            a, b = _paired(results, one, other, column)
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
                texts.append(f"{'+' if difference > 0 else '−'} {_p(p)}")
            body.append(texts)
        parts += [f"**{label('columns', column)}**", markdown(["", *(label("rows", row) for row in there)], body)]
    return parts, lines


def _p(value: float) -> str:
    return "<1e-4" if value < 1e-4 else f"{value:.4f}" if value < 0.1 else f"{value:.2f}"


def _paired(results: Results, one: str, other: str, column: str) -> tuple[list[float], list[float]]:
    """The same silos under two methods, of all seeds that both have."""
    a: list[float] = []
    b: list[float] = []
    of_seed = {o.content["resolved"]["seed"]: o.accuracies for o in results.seeds(other, column)}
    for outcome in results.seeds(one, column):
        against = of_seed.get(outcome.content["resolved"]["seed"])
        if against is not None:
            both = [pair for pair in zip(outcome.accuracies, against, strict=True) if not any(map(math.isnan, pair))]
            a += [x for x, _ in both]
            b += [y for _, y in both]
    return a, b


def _same_silos(results: Results, one: str, other: str, column: str) -> bool:
    """Whether silos of the same name hold the same data under both rows."""
    dealt = ("data", "setting", "clients", "per_silo")
    a, b = (results.seeds(row, column)[0].content["resolved"] for row in (one, other))
    return all(a.get(key) == b.get(key) for key in dealt)


def markdown(heads: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table whose columns line up in plain text too."""
    widths = [max(len(text) for text in column) for column in zip(heads, *body, strict=True)]

    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(heads), rule, *(line(texts) for texts in body)])
