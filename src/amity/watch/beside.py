"""The live page beside a run that goes on: a process of its own, so that the run is not slowed and its death is seen.

`python -m amity.watch.beside --port 0 DIR...` prints its address as a line, and serves until its standard input ends:
when whoever has started it closes it, or is gone, however that came. Before it ends it shows every open page how things
stand. It is the last to be given time on a busy machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from amity.errors import AmityError, InputError
from amity.watch.serving import check_folders, require_server, serving

NICE = 10
"""How far it stands back: a run that wants all cores gets them."""

LAST_WORDS = 15.0
"""Seconds that it has to show pages how it ended."""


@contextmanager
def watched_beside(paths: Sequence[Path]) -> Iterator[str]:
    """Serve the page of these folders from another process for a while; its address comes back."""
    require_server()
    check_folders(paths)
    command = [sys.executable, "-P", "-m", "amity.watch.beside", *(str(path.absolute()) for path in paths)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,  # Ctrl-C is for the run: the page shows how that ends
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address.startswith("http"):
            raise InputError(f"the live page cannot be served ({address or 'its process has ended'}): try amity watch")
        yield address
    finally:
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(LAST_WORDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def main() -> None:
    """Serve the folders that are named until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        os.nice(NICE)
    try:
        with serving([Path(word) for word in sys.argv[1:]]) as address:
            print(address.url, flush=True)
            while sys.stdin.read(1):
                pass
    except AmityError as error:
        print(error, flush=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
