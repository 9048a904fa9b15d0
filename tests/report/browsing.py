"""A real browser for tests of the page: Debian's Chromium, driven by Playwright.

A page is opened from disk. Whatever it logs, throws or asks for is a problem that fails the test that opened it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from amity.report.contents import View
from amity.report.page import write_report_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
Scheme = Literal["light", "dark"]


@contextmanager
def started() -> Iterator[Browser]:
    """Start the browser, or skip where there is none."""
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is not there (Debian: apt install chromium)")
    with sync.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Opener:
    """Opens views, in a folder of the test's own."""

    browser: Browser
    folder: Path
    problems: list[str]

    def __call__(self, view: View, width: int = 1440, scheme: Scheme = "light") -> Page:
        return self.file(write_report_page(view, self.folder / "report.html"), width, scheme)

    def file(self, path: Path, width: int = 1440, scheme: Scheme = "light") -> Page:
        context = self.browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            reduced_motion="reduce",
            accept_downloads=True,
        )
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: self.problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self._asked(request.url, path))
        page.goto(path.as_uri())
        page.wait_for_selector("#page footer")
        return page

    def _asked(self, address: str, path: Path) -> None:
        if address != path.as_uri() and not address.startswith(("data:", "blob:")):
            self.problems.append(f"request: {address}")

    def close(self) -> None:
        for context in self.browser.contexts:
            context.close()


def csv_of(page: Page, figure: str) -> list[list[str]]:
    """Press a figure's CSV button and return the rows of the file."""
    with page.expect_download() as waiting:
        page.click(f"#{figure}-csv")
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    return list(csv.reader(io.StringIO(text, newline="")))


def numbers(texts: list[str]) -> list[float | None]:
    """The cells of a csv file as numbers; empty ones are undefined."""
    return [float(text) if text else None for text in texts]


def column(page: Page, table: str, place: int) -> list[str]:
    """The texts of a table's column, from top to bottom."""
    cells = page.locator(f"#{table} tbody tr:not(.apart) > :nth-child({place + 1})")
    return [text.strip() for text in cells.all_inner_texts()]
