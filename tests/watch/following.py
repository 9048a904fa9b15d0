"""A browser that follows a live page: what it shows, and whatever it should not do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Frame


class Follower:
    """One open page. It notes what is logged or thrown, requests to anywhere else, and loads after the first."""

    def __init__(self, browser: Browser, url: str, patience: float = 20.0) -> None:
        self.problems: list[str] = []
        self.reloads = -1
        self._home = "/".join(url.split("/")[:3])
        context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
        self.page = context.new_page()
        self.page.set_default_timeout(1000 * patience)
        self.page.on("console", self._logged)
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("framenavigated", self._loaded)
        self.page.goto(url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the page."""
        self.page.context.close()

    def shows(self, *texts: str) -> None:
        """Wait until the live part shows all of these."""
        self._wait("#live", texts)

    def shows_anywhere(self, *texts: str) -> None:
        """Wait until the page shows all of these."""
        self._wait("body", texts)

    def reaches(self, round: int) -> None:
        """Wait until the first run has done so many rounds, or more."""
        found = "(least) => Number(document.querySelector('#live-0 progress')?.getAttribute('value')) >= least"
        self.page.wait_for_function(found, arg=round)

    def connection(self, state: str) -> None:
        """Wait until the page says that its connection is in this state."""
        self.page.wait_for_function("state => document.body.dataset.connection === state", arg=state)

    def _wait(self, place: str, texts: tuple[str, ...]) -> None:
        found = "([place, texts]) => texts.every((text) => document.querySelector(place)?.innerText.includes(text))"
        try:
            self.page.wait_for_function(found, arg=[place, list(texts)])
        except Exception as error:
            shown = self.page.inner_text("body")
            raise AssertionError(f"{texts} are not all in: {shown} ({self.problems})") from error

    def _logged(self, message: ConsoleMessage) -> None:
        self.problems.append(f"console: {message.text}")

    def _loaded(self, frame: Frame) -> None:
        self.reloads += 1

    def _asked(self, address: str) -> None:
        if not address.startswith((f"{self._home}/", "data:", "blob:")):
            self.problems.append(f"request: {address}")
