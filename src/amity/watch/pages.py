"""The answers of the live page's server. No path of a question is ever opened: the files below are all there are.

/                   the page
/files/...          its styles and scripts, read once when the server starts
/live               what is live, as server-sent events: at once, then when something has changed
/view               the whole view, for a page that has an older one
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from importlib.resources import files

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from amity.report.page import asset, assets, linked_page
from amity.watch.watcher import EVERY, Watcher

FOLDER, CLIENT = "files", "follow.js"

AT_LEAST = 10.0
"""Seconds after which what is live is sent though nothing has changed: ages stay right, and a page that hears nothing
for much longer knows that the connection is gone, which no browser notices when a laptop was asleep."""

RETRY = 2000
"""Milliseconds after which a browser connects again."""

LOOKS = 0.2
"""Seconds between two looks at whether the server is closing."""

TYPES = {"css": "text/css", "js": "text/javascript"}


PARTING = 1.5
"""Seconds that a page has, when the server closes, between its last news and the end: to fetch the view of these."""


class Visitors:
    """The pages that are open, and whether the server is about to close."""

    def __init__(self) -> None:
        self.closing = False
        self.open = 0  # connections, and views that are being fetched

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count one more for a while."""
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1


def application(watcher: Watcher, visitors: Visitors) -> Starlette:
    """Return the application that answers for these folders."""
    page = linked_page(f"/{FOLDER}", [f"/{FOLDER}/{CLIENT}"])
    texts = {name: asset(name) for name in assets()}
    texts[CLIENT] = (files(__package__) / CLIENT).read_text(encoding="utf-8")

    async def front(request: Request) -> Response:
        return Response(page, media_type="text/html")

    async def icon(request: Request) -> Response:
        return Response(status_code=204)  # browsers ask for one by themselves; there is none

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in texts:
            return PlainTextResponse("there is no such file\n", 404)
        return Response(texts[name], media_type=TYPES[name.rpartition(".")[2]])

    async def live(request: Request) -> Response:
        return StreamingResponse(_events(watcher, visitors), media_type="text/event-stream")

    async def view(request: Request) -> Response:
        with visitors.counted():
            made = await run_in_threadpool(watcher.view, hurry=visitors.closing)
        return Response(made, media_type="application/json")

    return Starlette(
        routes=[
            Route("/", front),
            Route("/favicon.ico", icon),
            Route(f"/{FOLDER}/{{name:path}}", file),
            Route("/live", live),
            Route("/view", view),
        ]
    )


async def _events(watcher: Watcher, visitors: Visitors) -> AsyncIterator[str]:
    """Yield what is live, whenever it has changed. A connection that comes again begins with all of it."""
    with visitors.counted():
        yield f"retry: {RETRY}\n\n"
        known, sent = "", 0.0
        while True:
            closing = visitors.closing  # before the look: all that was written until then is sent
            now = await run_in_threadpool(watcher.look, hurry=closing)
            news = now.news()
            if news != known or time.monotonic() - sent >= AT_LEAST:
                known, sent = news, time.monotonic()
                yield f"data: {now.text()}\n\n"
            if closing:
                await asyncio.sleep(PARTING)
                yield "event: over\ndata: {}\n\n"
                return
            await _pause(visitors)


async def _pause(visitors: Visitors) -> None:
    """Wait for the next look, or for the end."""
    until = time.monotonic() + EVERY
    while time.monotonic() < until and not visitors.closing:
        await asyncio.sleep(LOOKS)
