"""A process that outlives a driver and clears away the Ray cluster that it has left behind. See cluster.py.

    python watch.py FOLDER

waits until its input ends, and ends every process that then still belongs to the folder. Where it has read "done", the
driver has left the cluster in order. Else the driver is dead: the folder is removed, and a line says what has happened.
Processes are found on Linux only. It needs nothing but the standard library, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time

SECONDS = 10.0  # at most, until nothing is left
SAID = (
    "amity: this run's process ended without a word: it was killed, or Ray ended it after one of Ray's processes had "
    "died. What was left of its Ray cluster has been ended too; --resume continues the run"
)


def main() -> None:
    folder = sys.argv[1]
    in_order = sys.stdin.buffer.read() == b"done"
    sweep(folder)
    if not in_order:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError, ValueError):
            print(SAID, file=sys.stderr, flush=True)


def sweep(folder: str) -> None:
    """End what belongs to the folder, until nothing does."""
    end = time.monotonic() + SECONDS
    while (found := belonging(folder)) and time.monotonic() < end:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def belonging(folder: str) -> list[int]:
    """Processes of Ray that were started with paths in the folder, or have files of it open."""
    found = []
    for name in filter(str.isdigit, _listed("/proc")):
        words = _words(name)
        if _is_ray(words) and (any(folder in word for word in words) or _has_open(name, folder)):
            found.append(int(name))
    return found


def _is_ray(words: list[str]) -> bool:
    """A program of the package, run by itself or by Python; or one that has given itself a title."""
    return words[0].startswith("ray::") or any("/ray/" in word for word in words[:3])


def _words(pid: str) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().split("\0")
    except OSError:
        return [""]


def _has_open(pid: str, folder: str) -> bool:
    for handle in _listed(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/{handle}").startswith(f"{folder}/"):
                return True
    return False


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


if __name__ == "__main__":
    main()
