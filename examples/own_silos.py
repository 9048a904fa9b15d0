"""Your own silos as files: a folder with one entry per clinic, words for labels; then the same as torch data sets."""

import csv
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

import amity


def patients(sign: int, seed: int, count: int = 200) -> list[tuple[float, float, str]]:
    """Stand-in for a clinic's records. North and south agree on who is ill, so do east and west."""
    x = np.random.default_rng(seed).normal(size=(count, 2)).round(3)
    return [(a, b, "ill" if sign * a + b > 0 else "well") for a, b in x.tolist()]


def write(path: Path, rows: list[tuple[float, float, str]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([("pressure", "sugar", "diagnosis"), *rows])


class Records(Dataset[tuple[torch.Tensor, str]]):
    """Any torch.utils.data.Dataset of pairs will do."""

    def __init__(self, rows: list[tuple[float, float, str]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, str]:
        *x, label = self.rows[i]
        return torch.tensor(x), label


clinics = {"north": patients(1, 0), "south": patients(1, 1), "east": patients(-1, 2), "west": patients(-1, 3)}
run = amity.Run("heurfedamp", rounds=10, settings={"sigma": 10.0, "similarity_on": "update"})

with tempfile.TemporaryDirectory() as folder:
    for name, rows in clinics.items():
        write(Path(folder) / f"{name}.csv", rows)  # a fifth of each is held out for testing
    write(Path(folder) / "north" / "train.csv", clinics["north"][:150])  # but north brings its own test part
    write(Path(folder) / "north" / "test.csv", clinics["north"][150:])
    (Path(folder) / "north.csv").unlink()
    silos = amity.deal(amity.load(f"folder:{folder}", label="diagnosis"), "natural", clients=None, seed=0)

result = amity.run(run, silos)
print(f"from files: {result.best:.1f} %, classes {', '.join(silos.labels)}")

own = amity.own_silos({name: Records(rows) for name, rows in clinics.items()}, test_fraction=0.25)
print(f"from data sets: {amity.run(run, own).best:.1f} %, silos of {', '.join(map(str, own.sizes))}")
