"""One HTML file from a view: the report has styles, scripts and numbers inside, the live page loads its files.

No script of anybody else is used and nothing is built: the files under `script/` are read in the order below, and each
adds to the one object `window.amity`. `amity.render(view)` draws a view, and may be called again with a newer one.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from amity.errors import InputError
from amity.record import make_folder, replacing
from amity.record.files import not_written
from amity.report.contents import View

STYLES = ("colours", "page", "words", "tables", "controls", "figures", "live", "screens")
SCRIPTS = (
    *("dom", "format", "scale", "save", "figure", "table"),
    *("lines", "silo_lines", "intervals", "weights", "heat", "graph", "bars"),
    *("page", "part_live", "part_worth", "part_methods", "part_ties", "part_course", "part_setup", "start"),
)
"""Scripts in the order that they need each other: words and shapes, pictures, the parts of the page."""

POLICY = (
    "default-src 'none'; script-src {scripts}; style-src {styles}; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'"
)
"""Nothing is loaded from anywhere, and no script runs but ours: a report of private results must not call home."""


def assets() -> list[str]:
    """Return the names of all files that the page is made of, in the order to load them: styles, then scripts."""
    return [*(f"style/{name}.css" for name in STYLES), *(f"script/{name}.js" for name in SCRIPTS)]


def asset(name: str) -> str:
    """Return the text of one of the page's files."""
    if name not in assets():
        raise InputError(f"the page has no file {name!r}: it has {', '.join(assets())}")
    return _text(name)


def report_page(view: View) -> str:
    """Return a page that has all it needs inside."""
    styles = "\n".join(_text(name) for name in assets() if name.startswith("style/"))
    scripts = "\n".join(_text(name) for name in assets() if name.startswith("script/"))
    policy = POLICY.format(scripts=_allowed(scripts), styles=_allowed(styles))
    return _filled(
        policy=f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        styles=f"<style>{styles}</style>",
        view=_embedded(view),
        scripts=f"<script>{scripts}</script>",
    )


def linked_page(folder: str, more: Sequence[str] = ()) -> str:
    """Return a page without a view that loads its files from a folder beside it, and these scripts after them.

    It has no policy of its own: who serves it sends one with it.
    """
    styles = [f'<link rel="stylesheet" href="{folder}/{name}">' for name in assets() if name.endswith(".css")]
    scripts = [*(f"{folder}/{name}" for name in assets() if name.endswith(".js")), *more]
    loaded = "\n".join(f'<script src="{name}"></script>' for name in scripts)
    return _filled(policy="", styles="\n".join(styles), view="", scripts=loaded)


def write_report_page(view: View, path: str | Path) -> Path:
    """Write the page of a view to a file, or to `report.html` in a directory, and return where it lies."""
    path = Path(path)
    return write_text(report_page(view), path / "report.html" if path.is_dir() else path)


def write_text(page: str, path: str | Path) -> Path:
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


def _text(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _filled(*, policy: str, styles: str, view: str, scripts: str) -> str:
    return Template(_text("page.html")).substitute(policy=policy, styles=styles, view=view, scripts=scripts)


def _allowed(content: str) -> str:
    """Return the source that a policy allows for an element with exactly this content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _embedded(view: View) -> str:
    """Return JSON for a script element: no `<` in it, so that no text can end the element."""
    return json.dumps(view, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
