"""Ending with the process that has started this one, also where that one was killed and could tell nobody.

A training process whose parent is gone would go on for hours, for nobody, and hold files that the next one needs.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

EVERY = 0.5
"""Seconds between two looks."""

ORPHANED = 3
"""The exit code of a process whose parent is gone."""


def end_with_parent(end: Callable[[], None] = lambda: os._exit(ORPHANED)) -> None:
    """Call `end` from a thread when the parent of this process is gone.

    Linux could send a signal instead, but does so already when the thread ends that has started this process.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(EVERY)
        end()

    threading.Thread(target=watch, name="amity-parent", daemon=True).start()
