"""What the site takes from outside docs/, and what it must not ask for. MkDocs calls this file (its `hooks`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
FIGURES = (".png", ".pdf")
SHIM = '<script src="https://unpkg.com/iframe-worker/shim"></script>'


def on_files(files: Files, config: Any) -> Files:
    """Add every recorded figure, under its path in the repository."""
    for path in sorted((ROOT / "experiments" / "results").rglob("*")):
        if path.suffix in FIGURES:
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead links out of docs/ to those figures; of other links only the words stay, for the site has no such file."""

    def led(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        return f"{words}({target})" if target.endswith(FIGURES) else words.strip("[]")

    return re.sub(r"(\[[^\]]*\])\(\.\./([^)\s]+)\)", led, markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Take out the one script that the theme would fetch, for no reader's machine may ask another.

    It is for searching from disk. Search works where the site is served (`python -m http.server -d site`).
    """
    return output.replace(SHIM, "")


def on_post_template(output: str, template_name: str, config: Any) -> str:
    """Do the same for pages that are made from no Markdown, such as 404.html."""
    return output.replace(SHIM, "")
