"""FedAMP of PFLlib and of Amity: the same data, network, batch size, epochs and threads, in one go.

    python -m benchmarks.pfllib --pfllib PATH [--repeats 5] [--json FILE] [--quick]

PATH is your own checkout of https://github.com/TsingZ0/PFLlib. Its `system/main.py` is run as a separate program, in a
temporary directory with the data files it expects; nothing is written into the checkout. It imports packages that its
FedAMP does not use: for those that are not installed it is given empty stand-ins, which are named in the output.
"""

from __future__ import annotations

import argparse
import atexit
import importlib.util
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from torch import nn

from amity.contract import InputError, Silo, Solver, Split
from amity.data import deal, load
from amity.methods import build
from benchmarks.measure import Figures, Goal, Repeat, Work, lazily
from benchmarks.rounds import CLASSES, rounds
from benchmarks.show import run

CHECKOUT = "AMITY_PFLLIB"  # the environment variable that tells every case's process where the checkout is
NAME = "FashionMNIST"  # it chooses the network's size by the name of the data
RATE = 0.005  # its default; its clients know plain SGD only
BATCH, EPOCHS = 100, 2
SILOS = (20, 100)

STAND_INS = {
    "torchvision": "",
    "cvxpy": "",
    "matplotlib": "",
    "matplotlib.pyplot": "",
    "calmsize": "size = float\n",
    "h5py": """
import numpy

kept = {}

class File:
    def __init__(self, path, mode):
        self.data = kept.setdefault(path, {})
    def __enter__(self):
        return self
    def __exit__(self, *error):
        pass
    def create_dataset(self, name, data):
        self.data[name] = numpy.asarray(data)
    def get(self, name):
        return self.data[name]
""",
}
"""Module -> what stands in for it. Only the last two are called at all, after the last round: to print and to save."""


def cases(quick: bool = False) -> dict[str, Work]:
    """A FedAMP round of 20 and of 100 silos, 300 images of Fashion-MNIST each, PFLlib's CNN, batch 100, 2 epochs, SGD,
    all cores: PFLlib against Amity."""
    checkout()
    found: dict[str, Work] = {}
    for count in (2, 3) if quick else SILOS:
        found[f"PFLlib, {count} silos"] = lazily(partial(pfllib, count))
        found[f"Amity, {count} silos"] = lazily(partial(amity, count))
    return found


def baseline(case: str) -> str:
    return case.replace("Amity", "PFLlib")


def checkout() -> Path:
    given = os.environ.get(CHECKOUT, "")
    if not given or not (Path(given) / "system" / "main.py").is_file():
        raise InputError(
            f"this needs a checkout of PFLlib with system/main.py, got {given or 'none'!r}: "
            "clone https://github.com/TsingZ0/PFLlib and give --pfllib PATH"
        )
    return Path(given).resolve()


def notes() -> list[str]:
    missing = [name for name in STAND_INS if "." not in name and importlib.util.find_spec(name) is None]
    said = [f"PFLlib was given empty stand-ins for {', '.join(missing)}."] if missing else []
    return [
        *said,
        "PFLlib also evaluates the loss on the training data; the lines without evaluation leave that out.",
        "In the version this was written for, its FedAMP trains each silo alone: the penalty is made of detached "
        "tensors, and no silo starts from its cloud model. The work is the same up to that; Amity's silos collaborate.",
    ]


def silos(count: int) -> list[Silo]:
    """300 images to train on and 75 to test on at every silo: PFLlib leaves out a last batch that is not full."""
    dealt = deal(load("fmnist"), "iid", count, seed=0)
    return [
        s._replace(train=Split(s.train.x[:300], s.train.y[:300]), test=Split(s.test.x[:75], s.test.y[:75]))
        for s in dealt.silos
    ]


def network() -> nn.Module:
    """The network that PFLlib calls CNN, in its order of layers."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 512),
        nn.ReLU(),
        nn.Linear(512, CLASSES),
    )


def amity(count: int) -> Work:
    solver = Solver("sgd", RATE, batch=BATCH)
    next_round = rounds(build("fedamp"), network, silos(count), solver=solver, epochs=EPOCHS)

    def work() -> Figures:
        figures = next_round()
        return {**figures, "without evaluation": figures["seconds"] - figures["evaluate"]}

    return work


def pfllib(count: int) -> Work:
    """Three of its rounds; the first, in which there is no attention yet, does not count, the second evaluates not."""
    folder = Path(tempfile.mkdtemp(prefix="amity-pfllib-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_data(folder / "dataset" / NAME, silos(count))
    here = folder / "system"  # it looks for ../dataset and writes ../results
    here.mkdir()
    found_in = [str(write_stand_ins(folder / "stand-ins")), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, found_in)), "PYTHONDONTWRITEBYTECODE": "1"}
    options = {
        "--dataset": NAME,
        "--num_classes": CLASSES,
        "--model": "CNN",
        "--algorithm": "FedAMP",
        "--device": "cpu",
        "--num_clients": count,
        "--batch_size": BATCH,
        "--local_epochs": EPOCHS,
        "--local_learning_rate": RATE,
        "--global_rounds": 2,
        "--eval_gap": 2,
    }
    words = [str(word) for pair in options.items() for word in pair]
    command = [sys.executable, str(checkout() / "system" / "main.py"), *words]

    def work() -> Figures:
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True)
        found = [float(number) for number in re.findall(r"time cost -+ ([\d.]+)", done.stdout)]
        if len(found) != 3:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise InputError(f"PFLlib was to run 3 rounds, it told the time of {len(found)}: {last}")
        return {"seconds": found[2], "without evaluation": found[1]}

    return work


def write_data(folder: Path, dealt: list[Silo]) -> None:
    """One .npz per silo and part, an array `data` that holds a dict of x and y: the layout its README gives."""
    for number, silo in enumerate(dealt):
        for part, split in (("train", silo.train), ("test", silo.test)):
            (folder / part).mkdir(parents=True, exist_ok=True)
            held = {"x": split.x.numpy(), "y": split.y.numpy()}
            np.savez(folder / part / f"{number}.npz", data=np.array(held, dtype=object))


def write_stand_ins(folder: Path) -> Path:
    """Stand-ins for what this Python does not have."""
    for name, text in STAND_INS.items():
        package, _, inner = name.partition(".")
        if importlib.util.find_spec(package) is None:
            (folder / package).mkdir(parents=True, exist_ok=True)
            (folder / package / f"{inner or '__init__'}.py").write_text(text, encoding="utf-8")
    return folder


def faster(what: str, pair: int, figure: str | None = None, at_least: float = -math.inf) -> Goal:
    """Amity's speed in the first or in the second pair of cases."""

    def value(repeat: Repeat) -> float:
        theirs, ours = list(repeat.values())[2 * pair : 2 * pair + 2]
        return theirs.figures[figure] / ours.figures[figure] if figure else theirs.seconds / ours.seconds

    return Goal(what, value, at_least)


GOALS = [
    goal
    for pair, count in enumerate(SILOS)
    for goal in (
        faster(f"Amity's speed, {count} silos", pair, at_least=3.0),
        faster(f"Amity's speed, {count} silos, without evaluation", pair, "without evaluation"),
    )
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pfllib", metavar="PATH", required=True, help="your checkout of PFLlib")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="a few silos: see that it runs, not how fast")
    arguments = parser.parse_args()
    os.environ[CHECKOUT] = arguments.pfllib
    try:
        run([__file__], arguments.repeats, arguments.quick, arguments.json, Console(), Console(stderr=True))
    except InputError as error:
        print(f"pfllib: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
