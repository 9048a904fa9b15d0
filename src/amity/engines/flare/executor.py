"""A silo's side of a FLARE job: a relay between the network and the silo's worker. It loads no torch.

Every few seconds it gives a sign of life, with what the worker is doing and this machine's clock and version. By the
answer it notices when the server's process was started again.
"""

from __future__ import annotations

import sys
import threading
import time
from importlib.metadata import version
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.fqcn import FQCN

from amity.engines.flare.letters import BEAT_TOPIC, LETTER, PROCESS, packed, speak_shortly_of_bytes, unpacked
from amity.engines.flare.parcels import Fetch, Mailbox, Part, Trouble
from amity.engines.flare.questions import Questions
from amity.errors import LostWorker
from amity.federation.transport import BEAT
from amity.site.relay import Relay


class AmityExecutor(Executor):  # type: ignore[misc]  # FLARE has no types
    """Hands letters to the silo's worker, and its answers back."""

    def __init__(self) -> None:
        super().__init__()
        speak_shortly_of_bytes()
        self._relay = Relay([sys.executable, "-m", "amity.site.worker", "--answer-only"])  # the service does the rest
        self._mailbox = Mailbox()
        self._over = threading.Event()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.START_RUN:
            self._relay.start()  # now: it takes seconds to load
            threading.Thread(target=self._beat, args=(fl_ctx.get_engine(),), name="amity-beat", daemon=True).start()
        elif event_type == EventType.END_RUN:
            self._over.set()
            self._relay.end()

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        sent = unpacked(shareable)
        if task_name != LETTER or not isinstance(sent, Part | Fetch):
            return make_reply(ReturnCode.TASK_UNKNOWN)

        def work(letter: bytes) -> bytes | Trouble:
            try:
                answer = self._relay.ask(letter, lambda: bool(abort_signal.triggered))
            except LostWorker as error:
                return Trouble(str(error))
            return Trouble("nobody waits for its answer any more") if answer is None else answer

        return packed(self._mailbox.take(sent, work))

    def _beat(self, engine: Any) -> None:
        """Give signs of life until the run is over."""
        number, questions = 0, None
        while not self._over.wait(0.2 if number == 0 else BEAT):
            number += 1
            life = self._relay.life
            sign = Shareable()
            sign.update({**life._asdict(), "time": time.time(), "amity": version("amity"), "number": number})
            with engine.new_context() as context:
                if questions is None:
                    questions = Questions(engine.get_cell, FQCN.join([FQCN.ROOT_SERVER, context.get_job_id()]))
                questions.note()
                answers = engine.send_aux_request(
                    targets=["server"], topic=BEAT_TOPIC, request=sign, timeout=BEAT, fl_ctx=context, optional=True
                )
                if given_up := questions.heard(answers.get("server", {}).get(PROCESS)):
                    self.log_info(context, f"the server's process is a new one: it is asked again ({given_up})")
