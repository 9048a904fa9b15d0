"""The tally of a phase: what was tried how often, how it came out, and whatever did not come out as it must."""

from __future__ import annotations

import json
import os
import platform
import time
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict

import torch

SHOWN = 40  # failures that are written down in words


class Phase(TypedDict):
    """What a file keeps of a phase."""

    seed: int
    quick: bool
    seconds: float
    tried: int
    counts: dict[str, int]  # outcome -> how often
    failures: list[str]
    failed: int
    machine: dict[str, str]


class Tally:
    """Counts what a phase has tried. A failure is anything that its invariants forbid."""

    def __init__(self, seed: int, quick: bool) -> None:
        self.seed, self.quick = seed, quick
        self.tried = 0
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self._began = time.perf_counter()

    def add(self, outcome: str, times: int = 1) -> None:
        """Count an outcome."""
        self.counts[outcome] += times

    def fail(self, words: str) -> None:
        """Write down something that must not be, in one line."""
        self.failures.append(" ".join(words.split())[:600])
        print(f"    FAILED: {self.failures[-1]}", flush=True)

    def phase(self) -> Phase:
        """Return what is to be kept."""
        return {
            "seed": self.seed,
            "quick": self.quick,
            "seconds": round(time.perf_counter() - self._began, 1),
            "tried": self.tried,
            "counts": dict(sorted(self.counts.items())),
            "failures": self.failures[:SHOWN],
            "failed": len(self.failures),
            "machine": machine(),
        }


def machine() -> dict[str, str]:
    """Return what results may depend on."""
    return {
        "amity": version("amity"),
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }


def read_tallies(file: Path) -> dict[str, Phase]:
    """Return the phases that a file has; none where there is no file."""
    found: dict[str, Phase] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def write_tallies(file: Path, phases: Mapping[str, Phase]) -> None:
    """Put phases into a file, in the place of those of the same names."""
    text = json.dumps({**read_tallies(file), **phases}, indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


def in_words(name: str, phase: Mapping[str, Any]) -> list[str]:
    """Return the lines that are printed when a phase is over."""
    head = f"{name}: {phase['tried']} tried in {phase['seconds']:.0f} s, {phase['failed'] or 'none'} failed"
    return [head, *(f"    {count:6d}  {what}" for what, count in phase["counts"].items())]
