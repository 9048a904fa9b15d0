"""The process of one case: `python -m benchmarks.child SOURCE CASE quick|full`; for every line it reads it works once.

What is read are lines, what is answered is JSON. Whatever else the case prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping

from amity.errors import InputError
from benchmarks.measure import cases_of, module_of


def numbers(told: object) -> dict[str, float]:
    """The figures among what work returned, which may be anything."""
    items = told.items() if isinstance(told, Mapping) else ()
    return {key: float(value) for key, value in items if isinstance(value, (int, float))}


def main() -> None:
    source, case, size = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what a case has begun is cleared away
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    work = cases_of(module_of(source), size == "quick")[case]
    for _ in sys.stdin:
        try:
            began = time.perf_counter()
            told = work()
            seconds = time.perf_counter() - began
        except InputError as error:
            print(json.dumps({"error": str(error)}), file=answers, flush=True)
            return
        figures = numbers(told)
        seconds = figures.pop("seconds", seconds)
        print(json.dumps({"seconds": seconds, "figures": figures}), file=answers, flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
