"""Three clinics with a table each, and a small run on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import amity

SILOS = ("east", "north", "south")


def table(seed: int, count: int = 40, *, quantity: bool = False) -> str:
    """Return a csv text: two features, and a label that follows from them."""
    x = np.random.default_rng(seed).normal(size=(count, 2)).round(3)
    labels = [f"{40 + 20 * a:.3f}" if quantity else "ill" if a + b > 0 else "well" for a, b in x.tolist()]
    rows = [f"{a},{b},{label}" for (a, b), label in zip(x.tolist(), labels, strict=True)]
    return "\n".join(["pressure,sugar,diagnosis", *rows]) + "\n"


def make_clinics(folder: Path, *, quantity: bool = False) -> Path:
    """Write the table of every clinic."""
    folder.mkdir()
    for seed, name in enumerate(SILOS):
        (folder / f"{name}.csv").write_text(table(seed, quantity=quantity))
    return folder


def run_clinics(place: Path, method: str = "heurfedamp", *, quantity: bool = False, out: str = "run") -> Path:
    """Run a method on the clinics; where its directory is comes back."""
    data = place / "clinics"
    if not data.exists():
        make_clinics(data, quantity=quantity)
    run = amity.Run(
        method, data=f"folder:{data}", label="diagnosis", rounds=2, epochs=2, workers=1, lr=0.05, optimizer="sgd"
    )
    amity.run(run, out=place / out)
    return place / out
