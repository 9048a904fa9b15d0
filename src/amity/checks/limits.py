"""Work that may hang, and must not hang everything: a name service, a network drive that is gone."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what work gives, or raise what it raises; TimeoutError where it takes longer, and goes on unheard."""
    answer: queue.Queue[tuple[T] | Exception] = queue.Queue()

    def run() -> None:
        try:
            answer.put((work(),))
        except Exception as error:
            answer.put(error)

    threading.Thread(target=run, name="amity-check", daemon=True).start()
    try:
        found = answer.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(found, Exception):
        raise found
    return found[0]
