"""Whether silos learn from each other in PFLlib's FedAMP: its scores beside those of its own local training.

    python -m benchmarks.pfllib_alone --pfllib PATH [--silos 5] [--rounds 5]

PATH is your own checkout of https://github.com/TsingZ0/PFLlib, which is run as a separate program (see
`benchmarks/pfllib.py`), with the same data and seed each time: `Local`, then FedAMP with its default pull towards the
cloud model and with one that is a million times as strong. A method in which silos learn from each other cannot give
the same scores in all three. PFLlib draws the order of silos without a seed, and with it every silo's batches; so that
runs can be compared, silos are asked in one order here, by a `numpy.random.choice` that returns what it is given.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from amity.contract import InputError
from benchmarks.pfllib import CHECKOUT, NAME, checkout, silos, write_data, write_stand_ins

PULLS = {"Local": ("Local", "1"), "FedAMP": ("FedAMP", "1"), "FedAMP, pull x 1,000,000": ("FedAMP", "1000000")}
"""What is run: its name here, PFLlib's algorithm, and its option `lamda`."""

ONE_ORDER = "import numpy\n\nnumpy.random.choice = lambda silos, count, replace=True: list(silos)[:count]\n"
"""What Python runs before PFLlib, as `sitecustomize`: all silos, in their order."""


def scores(algorithm: str, pull: str, folder: Path, count: int, rounds: int) -> list[str]:
    """Return the mean test accuracy of every round, as PFLlib prints it."""
    options = {
        "--dataset": NAME,
        "--model": "CNN",
        "--algorithm": algorithm,
        "--lamda": pull,
        "--device": "cpu",
        "--num_clients": str(count),
        "--batch_size": "50",
        "--local_epochs": "1",
        "--local_learning_rate": "0.05",
        "--global_rounds": str(rounds),
    }
    words = [word for pair in options.items() for word in pair]
    environment = {**os.environ, "PYTHONPATH": str(folder / "stand-ins"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(checkout() / "system" / "main.py"), *words]
    done = subprocess.run(command, cwd=folder / "system", env=environment, capture_output=True, text=True)
    found = re.findall(r"Averaged Test Accuracy: ([\d.]+)", done.stdout)
    if len(found) != rounds + 1:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise InputError(f"PFLlib was to evaluate {rounds + 1} times, it did so {len(found)} times: {last}")
    return found


def main() -> None:
    """Run all three and print their scores."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pfllib", required=True, metavar="PATH")
    parser.add_argument("--silos", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    os.environ[CHECKOUT] = given.pfllib
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="amity-pfllib-") as name:
        folder = Path(name)
        write_data(folder / "dataset" / NAME, silos(given.silos))
        (folder / "system").mkdir()
        (write_stand_ins(folder / "stand-ins") / "sitecustomize.py").write_text(ONE_ORDER, encoding="utf-8")
        found = {}
        for title, (algorithm, pull) in PULLS.items():
            found[title] = scores(algorithm, pull, folder, given.silos, given.rounds)
            console.print(f"{title:26}{' '.join(found[title])}")
    equal = len({tuple(rounds) for rounds in found.values()}) == 1
    console.print("all three are equal in every round" if equal else "they differ")


if __name__ == "__main__":
    main()
