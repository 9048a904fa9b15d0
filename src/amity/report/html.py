"""The report: one HTML file that needs no network, no server and no other file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, cast

import tomli_w

from amity import statistics
from amity.errors import InputError
from amity.learn.metrics import TITLES
from amity.record import Manifest, Record
from amity.report import figures, heatmaps
from amity.report.page import document, facts_list, figure_in, section, table_of, write_page
from amity.report.series import Series, series_of
from amity.report.table import cells, headings, main_score, metric_heading, p_values, probability, rows, seeds, work
from amity.statistics import RankTest

HOLDINGS = (
    "Training examples of each class (row) at each silo (column); the colour goes by the square root of the count, "
    "blank means none. Lines lie between groups of alike silos, where these are side by side."
)


def write_report(records: Sequence[Record], path: str | Path) -> Path:
    """Write the report of one or several runs to a file, or to `report.html` in a directory."""
    if not records:
        raise InputError("a report needs at least one run, got none: give run directories")
    path = Path(path)
    return write_page(_page(records), path / "report.html" if path.is_dir() else path)


def write_holdings(manifest: Mapping[str, Any], path: str | Path) -> Path:
    """Write a page that shows who holds what, for a federation that was dealt and not run: `Silos.manifest` says it."""
    drawn: dict[str, figures.Figure] = {}
    told = cast(Manifest, manifest)
    title = escape(f"{told['setting']} on {told['data']}")
    classes = str(told["classes"] or "none, labels are quantities")
    facts = {"silos": [str(len(told["silos"]))], "classes": [classes], "sha256": [told["sha256"][:16]]}
    notes = "".join(f"<li>{escape(note)}</li>" for note in told["notes"])
    body = figure_in(drawn, "holdings", heatmaps.holdings(told), "Heat map of examples per silo and class")
    sections = [
        section("Who holds what", HOLDINGS, body),
        section("Notes", "Where the data did not allow the plan.", f"<ul>{notes}</ul>") if notes else "",
    ]
    return write_page(document(title, facts_list(facts), sections, drawn), path)


def _page(records: Sequence[Record]) -> str:
    drawn: dict[str, figures.Figure] = {}
    series = series_of(records)
    title = escape(series[0].name) if len(series) == 1 else f"{len(series)} methods compared"
    score = TITLES[main_score(records)]
    heading = score[0].upper() + score[1:]
    sections = [
        _results(records),
        _metrics(series, p_values(records)),
        _clouds(series),
        _warnings(series),
        section(
            f"{heading} per round",
            "Mean over silos, each by its own personal model; a band is the standard deviation over seeds.",
            figure_in(drawn, "curves", figures.curves(series), f"Line chart of mean test {score} per round"),
        ),
        section(
            f"{heading} per silo",
            "With the models that each method delivers. A point is a silo: a method can serve most well, a few badly.",
            figure_in(drawn, "silos", figures.silos(series), f"Box plot of test {score} over silos per run"),
        ),
        _collaboration(series, drawn),
        _holdings(series, drawn),
        section(
            "Traffic",
            "Summed over silos and rounds of one run. Evaluation is what is sent only to measure.",
            figure_in(drawn, "traffic", figures.traffic(series), "Bar chart of megabytes per run"),
        ),
        _configurations(series),
    ]
    results: list[Mapping[str, object]] = [record.results for record in records]
    facts = {
        "silos" if key == "clients" else key: list(dict.fromkeys(str(told[key]) for told in results))
        for key in ("data", "setting", "model", "clients", "rounds", "seed", "engine", "version")
    } | _columns(records)
    return document(title, facts_list(facts) + _notes(records), sections, drawn)


def _notes(records: Sequence[Record]) -> str:
    """Return the notes that the runs made on their data when they began, each once."""
    notes = dict.fromkeys(note for record in records for note in record.facts.get("notes", []))
    return f'<ul class="note">{"".join(f"<li>{escape(note)}</li>" for note in notes)}</ul>' if notes else ""


def _columns(records: Sequence[Record]) -> dict[str, list[str]]:
    """Return the label and the features of tables, the first ones by name."""
    told: dict[str, list[str]] = {}
    for facts in [record.facts for record in records]:
        features = facts.get("features")
        if not features:
            continue
        names = ", ".join(features[:5]) + (", ..." if len(features) > 5 else "")
        told.setdefault("label", []).append(str(facts["label"]))
        told.setdefault("features", []).append(f"{len(features):,} ({names})")
    return {key: list(dict.fromkeys(values)) for key, values in told.items()}


def _results(records: Sequence[Record]) -> str:
    body, titles = "", headings(records)
    table = rows(records)
    for row in table:
        name, *numbers = (escape(text) for text in cells(row, titles))
        best = row.best and len(table) > 1
        mark = ' <span aria-label="best">★</span>' if best else ""
        values = "".join(f"<td>{number}</td>" for number in numbers)
        body += f'<tr{" class=best" if best else ""}><th scope="row">{name}{mark}</th>{values}</tr>\n'
    main = TITLES[main_score(records)]
    what, papers = "", "BMTA, the best mean test accuracy over rounds, is what papers report: it"
    if main_score(records) == "r2":
        what = (
            "R² is the share of the variance of a silo's test labels that its model explains: 100 % is perfect, 0 % "
            "as good as their mean, less is worse. "
        )
        papers = "The best mean over rounds"
    note = (
        f"{what}Delivered is the mean test {main} of the models that are saved: those of the round that validation "
        "data chose, where silos have some, else of the last round. Worst silo and spread (standard deviation over "
        f"silos) are theirs. {papers} chooses its round on the test data, so nobody can count on it. The block score "
        "is the mean weight within groups of alike silos over the mean weight between them."
    ) + "".join(f" {escape(text)}." for text in work(records))
    noscript = "<noscript><p>The figures below need JavaScript; the tables do not.</p></noscript>"
    return section("Results", note, table_of(titles.values(), body) + noscript)


def _metrics(series: Sequence[Series], tests: Sequence[RankTest | None] | None) -> str:
    """Return the metrics beside the main score, of the models that are delivered."""
    found = [[(run.results["metrics"] or {}).get("delivered") or {} for run in one.runs] for one in series]
    names = list(dict.fromkeys(name for runs in found for metrics in runs for name in metrics))
    if not names:
        return ""
    head = ["Method", *(metric_heading(name) for name in names), *(["p"] if tests else [])]
    body = ""
    for place, (one, runs) in enumerate(zip(series, found, strict=True)):
        texts = [_over_seeds([metrics.get(name) for metrics in runs]) for name in names]
        texts += [probability(tests[place])] if tests else []
        cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
        body += f'<tr><th scope="row">{escape(one.name)}</th>{cells}</tr>\n'
    note = "Means over silos with the models that are delivered; silos where a metric is undefined are left out."
    if tests:
        note += (
            " p: could the difference from the best method be chance? A Wilcoxon signed-rank test over silos with the "
            "models that either delivers, with Holm's correction for the number of methods compared."
        )
    return section("More metrics", note, table_of(head, body))


def _clouds(series: Sequence[Series]) -> str:
    """Return how good the models are that the server mixes for each silo, beside what the silo makes of them."""
    found = [(one, [cloud for run in one.runs if (cloud := run.results.get("cloud"))]) for one in series]
    found = [(one, clouds) for one, clouds in found if clouds]
    if not found:
        return ""
    body = ""
    for one, clouds in found:
        texts = [
            seeds(one.over_seeds("delivered"), 2),
            _over_seeds([cloud["mean"] for cloud in clouds]),
            _over_seeds([cloud["worst"] for cloud in clouds]),
        ]
        cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
        body += f'<tr><th scope="row">{escape(one.name)}</th>{cells}</tr>\n'
    note = (
        "What the server mixed for each silo in the round that is delivered, tested at that silo before it trains: "
        "how much of the result is the others' doing. In Python: result.cloud(silo)."
    )
    return section("Cloud models", note, table_of(["Method", "Delivered %", "Cloud %", "Worst cloud %"], body))


def _over_seeds(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return seeds(statistics.over_seeds(known) if known else None, 2)


def _warnings(series: Sequence[Series]) -> str:
    """Return the warnings of the runs, each once, with the rounds in which it was given."""
    items = ""
    for name, record in _named_runs(series):
        rounds: dict[str, list[int]] = {}
        for line in record.lines:
            for warning in line["warnings"]:
                rounds.setdefault(warning, []).append(line["round"])
        for warning, said in rounds.items():
            span = f"round {said[0]}" if len(said) == 1 else f"rounds {said[0]} to {said[-1]}"
            items += f"<li><b>{escape(name)}</b>, {span}: {escape(warning)}</li>"
    return section("Warnings", "What to know before trusting these numbers.", f"<ul>{items}</ul>") if items else ""


def _named_runs(series: Sequence[Series]) -> Iterator[tuple[str, Record]]:
    """Yield every run with its method's name, and its seed where there are several."""
    for one in series:
        for seed, run in zip(one.seeds, one.runs, strict=True):
            yield (one.name if len(one.runs) == 1 else f"{one.name}, seed {seed}"), run


def _collaboration(series: Sequence[Series], drawn: dict[str, figures.Figure]) -> str:
    maps = ""
    for position, one in enumerate(series):
        if not one.first.weights:
            continue
        name, _ = next(_named_runs([one]))
        label = f"Heat map of collaboration weights of {escape(name)}"
        body = figure_in(drawn, f"weights-{position}", heatmaps.weights(one.first), label)
        maps += f"<div><h3>{escape(name)}, round {max(one.first.weights)}</h3>{body}</div>"
    note = (
        "How much each silo (row) takes from each other (column) in the last recorded round. Silos of one "
        "group lie side by side, with lines between groups. Colours end at the largest weight between two "
        "different silos; grey rows are silos that were not asked in that round."
    )
    return section("Who learns from whom", note, f'<div class="grid">{maps}</div>') if maps else ""


def _holdings(series: Sequence[Series], drawn: dict[str, figures.Figure]) -> str:
    """Return one map for all runs whose silos hold the same, which is most often all of them."""
    seen: list[tuple[list[list[int]], Manifest, list[str]]] = []
    for one in series:
        name, record = next(_named_runs([one]))
        if record.manifest is None:
            continue
        counts = heatmaps.held(record.manifest)
        users = next((users for known, _, users in seen if known == counts), None)
        if users is None:
            seen.append((counts, record.manifest, users := []))
        users.append(escape(name))
    maps = ""
    for position, (_, manifest, users) in enumerate(seen):
        label = "Heat map of examples per silo and class"
        body = figure_in(drawn, f"holdings-{position}", heatmaps.holdings(manifest), label)
        maps += f"<h3>{', '.join(users)}</h3>{body}" if len(seen) > 1 else body
    return section("Who holds what", HOLDINGS, maps) if maps else ""


def _configurations(series: Sequence[Series]) -> str:
    parts = [
        f"<details><summary>{escape(name)}</summary><pre>{escape(tomli_w.dumps(record.config))}</pre></details>"
        for name, record in _named_runs(series)
    ]
    return section("Configuration", "What each run was asked to do.", "".join(parts))
