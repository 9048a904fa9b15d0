"""Proxies between silos and their server, which can be cut."""

from __future__ import annotations

import asyncio
import threading

from amity.engines.flare.trial import free_port


class Proxies:
    """A proxy for each silo, through which it reaches the server, and which can be cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.cut: set[str] = set()
        self._open: dict[str, set[asyncio.StreamWriter]] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def add(self, name: str) -> int:
        """Start a silo's proxy; its port comes back."""
        port, self._open[name] = free_port(), set()

        async def start() -> None:
            await asyncio.start_server(lambda r, w: self._join(name, r, w), "127.0.0.1", port)

        asyncio.run_coroutine_threadsafe(start(), self._loop).result()
        return port

    def sever(self, name: str) -> None:
        """Cut a silo's connections, and let no new one through."""
        self.cut.add(name)
        for writer in list(self._open[name]):
            self._loop.call_soon_threadsafe(writer.transport.abort)

    async def _join(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if name in self.cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, far_writer}
        self._open[name] |= both
        await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))
        self._open[name] -= both


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while content := await reader.read(65536):
            writer.write(content)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.transport.abort()
