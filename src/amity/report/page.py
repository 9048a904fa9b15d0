"""The parts of an HTML page: one file that needs no network, no server and no other file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from amity.errors import InputError
from amity.record import make_folder, replacing
from amity.record.files import not_written
from amity.report.figures import Figure

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

# Nothing may be loaded from anywhere: a report of private results must not call home.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def write_page(page: str, path: str | Path) -> Path:
    """Write a page to a file, and the folders above it."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"cannot write the report to {path}, which is a directory: give a file, such as report.html")
    try:
        make_folder(path.parent)
        with replacing(path) as temporary:
            temporary.write_text(page, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise not_written(error, f"cannot write the report to {path} ({error.strerror}): give another path") from error
    return path


def document(title: str, facts: str, sections: Sequence[str], drawn: Mapping[str, Figure]) -> str:
    """Return a whole page with its figures and all that draws them."""
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
    """Return JSON for a script element: no `<` in it, so that no text can end the element."""
    return json.dumps(content, allow_nan=False).replace("<", "\\u003c")


def facts_list(facts: Mapping[str, Sequence[str]]) -> str:
    """Return a list of facts by name; where runs differ, with all values."""
    entries = [f"<div><dt>{name}</dt><dd>{escape(', '.join(values))}</dd></div>" for name, values in facts.items()]
    return f'<dl class="facts">{"".join(entries)}</dl>'


def section(heading: str, note: str, body: str) -> str:
    """Return a part of the page under a heading, with a note on how to read it."""
    return f'<section><h2>{heading}</h2><p class="note">{note}</p>{body}</section>\n'


def figure_in(drawn: dict[str, Figure], key: str, figure: Figure, label: str) -> str:
    """Return the place of a figure, which joins those to be drawn."""
    drawn[key] = figure
    height = figure["layout"]["height"]  # room is kept while the page loads
    return f'<figure id="{key}" role="img" aria-label="{label}" style="min-height:{height}px"></figure>'


def table_of(head: Iterable[str], body: str) -> str:
    """Return a table with these headings above its rows."""
    top = "".join(f'<th scope="col">{heading}</th>' for heading in head)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
