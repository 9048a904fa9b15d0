"""Run the soak, or some of its phases: `python -m benchmarks.soak [PHASE ...] [--seed 0] [--quick] [--json FILE]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from benchmarks.soak import damage, federation, files, kills, options, runs
from benchmarks.soak.tally import Phase, Tally, in_words, write_tallies

PHASES: Mapping[str, Callable[[Tally, Path], None]] = {
    "runs": runs.soak,
    "kills": kills.soak,
    "damage": damage.soak,
    "options": options.soak,
    "files": files.soak,
    "federation": federation.soak,
}


def run_phases(names: Sequence[str], seed: int, quick: bool, file: Path | None = None) -> dict[str, Phase]:
    """Run phases one after the other, print their tallies, and write each to the file when it is over.

    Ctrl-C ends a phase early: what it has tried so far counts, and no further one begins.
    """
    found: dict[str, Phase] = {}
    for name in names:
        tally = Tally(seed, quick)
        stopped = False
        with tempfile.TemporaryDirectory(prefix=f"amity-soak-{name}-", ignore_cleanup_errors=True) as folder:
            try:
                PHASES[name](tally, Path(folder))
            except KeyboardInterrupt:
                stopped = True
        found[name] = tally.phase()
        print("\n".join(in_words(name, found[name])), flush=True)
        if file is not None:
            write_tallies(file, {name: found[name]})
        if stopped:
            break
    return found


def main() -> None:
    """Run what was asked for; exit code 1 where anything has failed."""
    reader = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    reader.add_argument("phases", nargs="*", metavar="PHASE", help=f"{', '.join(PHASES)}; all unless told")
    reader.add_argument("--seed", type=int, default=0, help="of all that is drawn")
    reader.add_argument("--quick", action="store_true", help="about a minute for each phase")
    reader.add_argument("--json", type=Path, metavar="FILE", help="put the tally into this file")
    asked = reader.parse_args()
    if strange := [name for name in asked.phases if name not in PHASES]:
        reader.error(f"unknown phase {strange[0]!r}: known are {', '.join(PHASES)}")
    torch.set_num_threads(1)
    found = run_phases(asked.phases or list(PHASES), asked.seed, asked.quick, asked.json)
    sys.exit(1 if any(phase["failed"] for phase in found.values()) else 0)


if __name__ == "__main__":
    main()
