"""The site: every page has its place in the navigation, links between pages lead somewhere, and it builds."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def pages_of(nav: list[Any]) -> Iterator[str]:
    """The files of a navigation, at any depth."""
    for entry in nav:
        (target,) = entry.values()
        if isinstance(target, str):
            yield target
        else:
            yield from pages_of(target)


def anchors(page: Path) -> set[str]:
    """The places in a page that a link can lead to: headings, as the toc extension of Markdown names them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles]
    return {re.sub(r"[-\s]+", "-", title) for title in plain}


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Every link and picture of a page that is not on the web: the file and the place in it."""
    text = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        file, _, place = target.partition("#")
        yield file, place


def test_every_page_is_in_the_navigation_once() -> None:
    nav = list(pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    assert nav[:2] == ["index.md", "start.md"]
    assert sorted(nav) == [path.relative_to(DOCS).as_posix() for path in PAGES]


def test_the_reader_of_links(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A (b), c\n\n[x](y.md#z) ![p](q.png) `[no](no.md)` [w](https://w.org)\n\n```\n# no\n```\n")
    assert list(links(page)) == [("y.md", "z"), ("q.png", "")]
    assert anchors(page) == {"a-b-c"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for file, place in links(page):
        target = (page.parent / file) if file else page
        assert target.exists() and ROOT in target.resolve().parents, f"{file} is not there"
        assert not place or place in anchors(target), f"{file or page.name} has no heading #{place}"


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    for package in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "-d", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    home = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "Start here" in home
    assert (tmp_path / "site" / "experiments" / "results" / "own" / "cpu" / "heart-gains.png").is_file()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"mkdocs build$", makefile, re.MULTILINE)  # a quiet build counts no warnings, strict or not
    for page in (tmp_path / "site").rglob("*.html"):  # read without a network, and without asking one
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe|link)\b[^>]*(?:src|href)="?https?://[^>]*>', text), page.name
