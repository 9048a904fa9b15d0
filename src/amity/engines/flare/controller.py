"""The server's side of a FLARE job: a transport for the server's side of a run, which knows nothing of FLARE."""

from __future__ import annotations

import os
import queue
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from amity.engines.flare.letters import BEAT_TOPIC, LETTER, PROCESS, forget, packed, speak_shortly_of_bytes, unpacked
from amity.engines.flare.parcels import ANSWER, Again, Exchange, Fetch, Got, Pace, Part, Sent, Trouble
from amity.federation.transport import SILENT, Away, Letter

HUB = "AMITY_HUB"

CARRIED = 600
"""Seconds that a part may take on its way: 4 MiB at 60 kbit/s."""

_SILO = "amity_silo"  # whom a task is for
_WORKS = "amity_works"  # whether it asks for work
_SINCE = "amity_since"  # when it was sent


class AmityController(Controller):  # type: ignore[misc]  # FLARE has no types
    """Runs the server's side of the run that it is given the name of."""

    def __init__(self, run: str) -> None:
        super().__init__(task_check_period=0.05)
        speak_shortly_of_bytes()
        self.run = run
        self.signs = Signs()
        self._mark = uuid.uuid4().hex  # of this process: silos tell it from one before

    def start_controller(self, fl_ctx: FLContext) -> None:
        fl_ctx.get_engine().register_aux_message_handler(topic=BEAT_TOPIC, message_handle_func=self._beat)

    def stop_controller(self, fl_ctx: FLContext) -> None:
        self.cancel_all_tasks(fl_ctx=fl_ctx)

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """An answer that nobody waits for any more is recognised as late, and dropped."""
        self.log_info(fl_ctx, f"a late answer of {client.name} is dropped")

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        from amity.hub.conduct import conduct, longest_answer  # now: torch takes seconds to load

        hub = Path(os.environ[HUB])
        conduct(hub, self.run, Letters(self, fl_ctx, abort_signal, longest_answer(hub, self.run)))

    def _beat(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        peer = fl_ctx.get_peer_context()
        if peer is not None:
            self.signs.heard(str(peer.get_identity_name()), dict(request))
        answer = Shareable()
        answer[PROCESS] = self._mark
        return answer


class Signs:
    """Signs of life, by silo."""

    def __init__(self) -> None:
        self.since = time.time()  # none can be older
        self._lock = threading.Lock()
        self._last: dict[str, tuple[float, dict[str, Any]]] = {}

    def heard(self, name: str, content: dict[str, Any]) -> None:
        """Note a sign of life."""
        with self._lock:
            self._last[name] = time.time(), content

    def last(self, name: str) -> tuple[float, dict[str, Any]] | None:
        """The time of a silo's last sign of life, and what it said."""
        with self._lock:
            return self._last.get(name)


class Letters:
    """FLARE as a transport: one task for each letter."""

    def __init__(self, controller: AmityController, fl_ctx: FLContext, abort: Signal, most: int = ANSWER) -> None:
        """`most`: bytes that an answer may have."""
        self._controller = controller
        self._context = fl_ctx
        self._abort = abort
        self._most = most
        self._paces: dict[str, Pace] = {}

    @property
    def stopped(self) -> bool:
        return bool(self._abort.triggered)

    def sign(self, name: str) -> tuple[float, dict[str, Any]] | None:
        """The time of a silo's last sign of life in this job, and what it said."""
        return self._controller.signs.last(name)

    def send(self, letters: Mapping[str, Letter], seconds: Mapping[str, float]) -> Iterator[tuple[str, bytes | Away]]:
        came: queue.Queue[tuple[Task, Shareable | None]] = queue.Queue()
        paces = {name: self._paces.setdefault(name, Pace()) for name in letters}
        open_ = {
            name: Exchange(uuid.uuid4().hex, partial(letters.__getitem__, name), paces[name], self._most)
            for name in letters
        }
        tasks = {name: self._send(name, one, one.first(), seconds[name], came) for name, one in open_.items()}
        began = time.monotonic()
        while tasks and not self.stopped:
            try:
                task, reply = came.get(timeout=0.2)
            except queue.Empty:
                for name, away in self._silent(tasks):
                    paces[name].broke()
                    yield name, away
                continue
            name = task.props[_SILO]
            if name not in tasks or tasks[name] is not task:
                continue  # it was given up, or answered, before
            del tasks[name]
            if reply is None:
                paces[name].broke()
                yield name, Away(f"no answer for {time.monotonic() - began:.0f} s")
                continue
            if not task.props[_WORKS]:
                paces[name].took(time.monotonic() - task.props[_SINCE])
            found = open_[name].next(_reply(reply))
            forget(task.data, reply)
            if isinstance(found, Part | Fetch):
                tasks[name] = self._send(name, open_[name], found, seconds[name], came)
                continue
            del open_[name]
            yield name, Away(found.words) if isinstance(found, Trouble) else found

    def _send(
        self,
        name: str,
        exchange: Exchange,
        sent: Sent,
        seconds: float,
        came: queue.Queue[tuple[Task, Shareable | None]],
    ) -> Task:
        """Hand a part to FLARE; its reply, or that there is none, is put into the queue."""

        def received(client_task: ClientTask, fl_ctx: FLContext) -> None:
            came.put((client_task.task, client_task.result))

        def done(task: Task, fl_ctx: FLContext) -> None:
            came.put((task, None))  # after its reply, if there was one

        works = exchange.works(sent)
        limit = int(seconds) if works else CARRIED
        task = Task(LETTER, packed(sent), timeout=max(1, limit), result_received_cb=received, task_done_cb=done)
        task.props.update({_SILO: name, _WORKS: works, _SINCE: time.monotonic()})
        self._controller.send(task, self._context, targets=[name])
        return task

    def _silent(self, tasks: dict[str, Task]) -> Iterator[tuple[str, Away]]:
        """Give up on silos without a sign of life: whoever waits for them decides what that means.

        One that has been silent since before the letter was sent is given up at once, or every round would wait for it.
        """
        now = time.time()
        for name in list(tasks):
            sign = self.sign(name)
            if now - (self._controller.signs.since if sign is None else sign[0]) < SILENT:
                continue
            self._controller.cancel_task(tasks.pop(name), fl_ctx=self._context)
            if sign is None:
                yield name, Away("not seen in this run yet")
            else:
                yield name, Away(f"no sign of life since {datetime.fromtimestamp(sign[0]):%H:%M:%S}")


def _reply(data: Shareable) -> Part | Got | Again | Trouble:
    """What a silo has replied."""
    reply = unpacked(data)
    return Trouble("it gave an answer that is none: look at its version") if isinstance(reply, Fetch) else reply
