"""The report: one HTML file that needs no network, no server and no other file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import tomli_w

from amity.contract import InputError
from amity.metrics import TITLES
from amity.record import Record, replacing
from amity.report import figures
from amity.report.table import cells, headings, labels, main_score, metric_heading, number, p_values, probability, rows

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #f5f7fa; color: #1f2933; font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .25rem; }
h3 { font-size: 1rem; margin: .5rem 0 0; overflow-wrap: anywhere; }
p { margin: .25rem 0 .75rem; max-width: 46rem; }
section { background: #fff; border: 1px solid #e4e7eb; border-radius: 8px; }
section { padding: 1rem 1.25rem; margin-top: 1rem; }
.facts { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; margin: 0; }
.facts div { display: flex; gap: .4rem; min-width: 0; }
.facts dt, .note { color: #52606d; }
.facts dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
.note { font-size: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .6rem; text-align: right; border-bottom: 1px solid #e4e7eb; white-space: nowrap; }
th:first-child { text-align: left; }
thead th { color: #52606d; font-weight: 600; font-size: .9rem; border-bottom: 2px solid #cbd2d9; }
tbody th { font-weight: 500; min-width: 9rem; max-width: 22rem; white-space: normal; overflow-wrap: anywhere; }
tr.best th, tr.best td { font-weight: 700; background: #eef6fb; }
figure { margin: 0; min-width: 0; }
.grid { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); }
pre { overflow-x: auto; background: #f5f7fa; padding: .75rem; border-radius: 6px; font-size: .85rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
"""

DRAW = """
for (const figure of JSON.parse(document.getElementById("figures").textContent))
  Plotly.newPlot(figure.id, figure.data, figure.layout, {responsive: true, displayModeBar: false});
"""

HOLDINGS = (
    "Training examples of each class (row) at each silo (column); the colour goes by the square root of the count, "
    "blank means none. Lines lie between groups of alike silos, where these are side by side."
)

# Nothing may be loaded from anywhere: a report of private results must not call home.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def write_report(records: Sequence[Record], path: str | Path) -> Path:
    """Write the report of one or several runs to a file, or to `report.html` in a directory."""
    if not records:
        raise InputError("a report needs at least one run, got none: give run directories")
    path = Path(path)
    return _write(_page(records), path / "report.html" if path.is_dir() else path)


def write_holdings(manifest: Mapping[str, Any], path: str | Path) -> Path:
    """Write a page that shows who holds what, for a federation that was dealt and not run."""
    drawn: dict[str, figures.Figure] = {}
    title = escape(f"{manifest['setting']} on {manifest['data']}")
    classes = manifest["classes"] or "none, labels are quantities"
    facts = {"silos": len(manifest["silos"]), "classes": classes, "sha256": manifest["sha256"][:16]}
    notes = "".join(f"<li>{escape(note)}</li>" for note in manifest["notes"])
    body = _figure(drawn, "holdings", figures.holdings(manifest), "Heat map of examples per silo and class")
    sections = [
        _section("Who holds what", HOLDINGS, body),
        _section("Notes", "Where the data did not allow the plan.", f"<ul>{notes}</ul>") if notes else "",
    ]
    return _write(_document(title, _facts({key: [str(value)] for key, value in facts.items()}), sections, drawn), path)


def _write(page: str, path: str | Path) -> Path:
    path = Path(path)
    if path.is_dir():
        raise InputError(f"cannot write the report to {path}, which is a directory: give a file, such as report.html")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(page, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise InputError(f"cannot write the report to {path} ({error.strerror}): give another path") from error
    return path


def _page(records: Sequence[Record]) -> str:
    drawn: dict[str, figures.Figure] = {}
    names = [escape(name) for name in labels(records)]
    title = names[0] if len(records) == 1 else f"{len(records)} runs compared"
    score = TITLES[main_score(records)]
    heading = score[0].upper() + score[1:]
    sections = [
        _results(records),
        _metrics(records),
        _warnings(records, names),
        _section(
            f"{heading} per round",
            "Mean over silos, each by its own personal model.",
            _figure(drawn, "curves", figures.curves(records), f"Line chart of mean test {score} per round"),
        ),
        _section(
            f"{heading} per silo",
            "At the best round of each run. A point is a silo: a method can serve most well and a few badly.",
            _figure(drawn, "silos", figures.silos(records), f"Box plot of test {score} over silos per run"),
        ),
        _collaboration(records, names, drawn),
        _holdings(records, names, drawn),
        _section(
            "Traffic",
            "Summed over silos and rounds. Evaluation is what is sent only to measure.",
            _figure(drawn, "traffic", figures.traffic(records), "Bar chart of megabytes per run"),
        ),
        _configurations(records, names),
    ]
    facts = {
        "silos" if key == "clients" else key: list(dict.fromkeys(str(record.results[key]) for record in records))
        for key in ("data", "setting", "model", "clients", "rounds", "seed", "engine", "version")
    }
    return _document(title, _facts(facts), sections, drawn)


def _document(title: str, facts: str, sections: Sequence[str], drawn: Mapping[str, figures.Figure]) -> str:
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped, unused-ignore]  # slow to import

    content = [{"id": key, **figure} for key, figure in drawn.items()]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>Amity: {title}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<header>
<h1>{title}</h1>
{facts}
</header>
{"".join(sections)}
</main>
<script type="application/json" id="figures">{_embedded(content)}</script>
<script>{get_plotlyjs()}</script>
<script>{DRAW}</script>
</body>
</html>
"""


def _embedded(content: Any) -> str:
    """JSON inside a script element: no `<` in it, so that no text can end the element."""
    return json.dumps(content, allow_nan=False).replace("<", "\\u003c")


def _facts(facts: Mapping[str, Sequence[str]]) -> str:
    """What the runs have in common; where they differ, all values."""
    entries = [f"<div><dt>{name}</dt><dd>{escape(', '.join(values))}</dd></div>" for name, values in facts.items()]
    return f'<dl class="facts">{"".join(entries)}</dl>'


def _section(heading: str, note: str, body: str) -> str:
    return f'<section><h2>{heading}</h2><p class="note">{note}</p>{body}</section>\n'


def _figure(drawn: dict[str, figures.Figure], key: str, figure: figures.Figure, label: str) -> str:
    drawn[key] = figure
    height = figure["layout"]["height"]  # room is kept while the page loads
    return f'<figure id="{key}" role="img" aria-label="{label}" style="min-height:{height}px"></figure>'


def _results(records: Sequence[Record]) -> str:
    body = ""
    for row in rows(records):
        name, *numbers = (escape(text) for text in cells(row))
        best = row.best and len(records) > 1
        mark = ' <span aria-label="best">★</span>' if best else ""
        values = "".join(f"<td>{number}</td>" for number in numbers)
        body += f'<tr{" class=best" if best else ""}><th scope="row">{name}{mark}</th>{values}</tr>\n'
    what = "BMTA is the best mean test accuracy over rounds; it"
    if main_score(records) == "r2":
        what = (
            "R² is the share of the variance of a silo's test labels that its model explains: 100 % is perfect, 0 % "
            "as good as their mean, less is worse. The best mean over rounds"
        )
    note = (
        f"{what} selects on the test set, so read it beside the "
        "last round. Worst silo and spread (standard deviation over silos) are those of the best round. The "
        "block score is the mean weight within groups of alike silos over the mean weight between them."
    )
    noscript = "<noscript><p>The figures below need JavaScript; the tables do not.</p></noscript>"
    return _section("Results", note, _table(headings(records).values(), body) + noscript)


def _table(head: Iterable[str], body: str) -> str:
    top = "".join(f'<th scope="col">{heading}</th>' for heading in head)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _metrics(records: Sequence[Record]) -> str:
    """What there is beside the main score, in the last round."""
    found = [record.results.get("metrics") or {} for record in records]
    names = list(dict.fromkeys(name for metrics in found for name in metrics.get("last") or {}))
    if not names:
        return ""
    chosen = any(record.results.get("validated") is not None for record in records)
    tests = p_values(records)
    head = ["Method", *(["Validated %"] if chosen else []), *(metric_heading(name) for name in names)]
    head += ["p"] if tests else []
    body = ""
    for place, (label, record, metrics) in enumerate(zip(labels(records), records, found, strict=True)):
        values = [record.results.get("validated")] if chosen else []
        values += [(metrics.get("last") or {}).get(name) for name in names]
        texts = [number(value, 2) for value in values] + ([probability(tests[place])] if tests else [])
        cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
        body += f'<tr><th scope="row">{escape(label)}</th>{cells}</tr>\n'
    note = "Means over silos of the last round; silos where a metric is undefined are left out."
    if chosen:
        main = TITLES[main_score(records)]
        note += f" Validated: the mean test {main} of the round whose mean {main} on validation data is the best."
    if tests:
        note += (
            " p: could the difference from the best run be chance? A Wilcoxon signed-rank test over silos at the best "
            "round of either, with Holm's correction for the number of runs compared."
        )
    return _section("More metrics", note, _table(head, body))


def _warnings(records: Sequence[Record], names: Sequence[str]) -> str:
    """What the runs said aloud, each once, with the rounds in which it was said."""
    items = ""
    for name, record in zip(names, records, strict=True):
        rounds: dict[str, list[int]] = {}
        for line in record.lines:
            for warning in line["warnings"]:
                rounds.setdefault(warning, []).append(line["round"])
        for warning, said in rounds.items():
            span = f"round {said[0]}" if len(said) == 1 else f"rounds {said[0]} to {said[-1]}"
            items += f"<li><b>{name}</b>, {span}: {escape(warning)}</li>"
    return _section("Warnings", "What to know before trusting these numbers.", f"<ul>{items}</ul>") if items else ""


def _collaboration(records: Sequence[Record], names: Sequence[str], drawn: dict[str, figures.Figure]) -> str:
    maps = ""
    for position, (name, record) in enumerate(zip(names, records, strict=True)):
        if not record.weights:
            continue
        label = f"Heat map of collaboration weights of {name}"
        body = _figure(drawn, f"weights-{position}", figures.weights(record), label)
        maps += f"<div><h3>{name}, round {max(record.weights)}</h3>{body}</div>"
    note = (
        "How much each silo (row) takes from each other (column) in the last recorded round. Silos of one "
        "group lie side by side, with lines between groups. Colours end at the largest weight between two "
        "different silos; grey rows are silos that were not asked in that round."
    )
    return _section("Who learns from whom", note, f'<div class="grid">{maps}</div>') if maps else ""


def _holdings(records: Sequence[Record], names: Sequence[str], drawn: dict[str, figures.Figure]) -> str:
    """One map for all runs whose silos hold the same, which is most often all of them."""
    seen: list[tuple[list[list[int]], Mapping[str, Any], list[str]]] = []
    for name, record in zip(names, records, strict=True):
        if record.manifest is None:
            continue
        counts = figures.held(record.manifest)
        users = next((users for known, _, users in seen if known == counts), None)
        if users is None:
            seen.append((counts, record.manifest, users := []))
        users.append(name)
    maps = ""
    for position, (_, manifest, users) in enumerate(seen):
        label = "Heat map of examples per silo and class"
        body = _figure(drawn, f"holdings-{position}", figures.holdings(manifest), label)
        maps += f"<h3>{', '.join(users)}</h3>{body}" if len(seen) > 1 else body
    return _section("Who holds what", HOLDINGS, maps) if maps else ""


def _configurations(records: Sequence[Record], names: Sequence[str]) -> str:
    parts = [
        f"<details><summary>{name}</summary><pre>{escape(tomli_w.dumps(record.config))}</pre></details>"
        for name, record in zip(names, records, strict=True)
    ]
    return _section("Configuration", "What each run was asked to do.", "".join(parts))
