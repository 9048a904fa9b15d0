"""A model of 100 MB over a link of 20 Mbit/s: the run takes its time, and ends well."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest
import torch

from amity.config.run import Run
from amity.data import Silos
from amity.data.own.arrays import own_silos
from amity.engines.flare.trial import Trial, free_port

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flare: slow link")]

RATE = 20e6 / 8  # bytes in a second
CHUNK = 1 << 16


class SlowLink:
    """A proxy on loopback that lets so much through in a second, each way."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self.carried = 0
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._joined: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        started = asyncio.start_server(self._join, "127.0.0.1", self.port)
        self._server = asyncio.run_coroutine_threadsafe(started, self._loop).result()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._joined.add(task)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        await asyncio.gather(self._pipe(reader, far_writer), self._pipe(far_reader, writer))

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while content := await reader.read(CHUNK):
                self.carried += len(content)
                writer.write(content)
                await writer.drain()
                await asyncio.sleep(len(content) / RATE)
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        for task in self._joined:
            task.cancel()
        await asyncio.gather(*self._joined, return_exceptions=True)
        await asyncio.sleep(0.1)  # until what was aborted is closed

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


def large() -> Silos:
    """Two silos with few examples of 2.5 million numbers each, for which even a linear model has 100 MB."""
    rng = torch.Generator().manual_seed(0)

    def examples(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand(count, 1, 1600, 1600, generator=rng), torch.arange(count) % 10

    return own_silos({name: (*examples(4), *examples(2)) for name in ("near", "far")}, classes=10)


def test_a_large_model_over_a_slow_link(tmp_path: Path) -> None:
    with Trial(tmp_path / "trial", large()) as trial:
        file = trial.site("far") / "kit" / "startup" / "fed_client.json"
        content = json.loads(file.read_text())
        host, _, port = content["servers"][0]["service"]["target"].partition(":")
        link = SlowLink(int(port))
        content["servers"][0]["service"]["target"] = f"{host}:{link.port}"
        file.write_text(json.dumps(content))
        trial.start("server", *trial.names)
        run = Run("fedavg-local", model="mlr", rounds=2, epochs=1, clients=2, val_fraction=0.0)
        handed = trial.submit(run, "large")
        status = trial.wait(handed, 1500.0)
        assert status["phase"] == "ended", status["words"]
        assert status["jobs"] == 1 and all(one["rounds"] == 2 for one in status["silos"].values())
    link.close()
    model = 4 * 10 * (1600 * 1600 + 1)
    assert link.carried < 1.3 * 4 * model  # down and up in two rounds, each once
