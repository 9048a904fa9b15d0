"""Silos that are tables, in tests: the patients of three clinics with words, gaps and dates, as a hub and sites have
them. What a run between them should come to is what a simulation of the same files comes to.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from networks import Trial, small_run
from sites import approved, contract_of, make_site, signed

import amity
from amity.data import Silos
from amity.federation.run_contract import DataForm, Limits
from amity.federation.schema_contract import SUMMARY, SchemaContract
from amity.hub.run_data import DataReader
from amity.prepare import silos_of

NAMES = ("north", "south", "east")
LABELS = ("ill", "well")
COLUMNS = ("age", "smoker", "seen", "insured", "sugar", "diagnosis")


def patients(seed: int, count: int = 40) -> list[list[object]]:
    """Rows of a clinic; those of another seed are older and smoke more."""
    rng = np.random.default_rng(seed)
    rows: list[list[object]] = []
    for age in rng.normal(50 + 5 * seed, 10, count).round(1).tolist():
        smoker = str(rng.choice(["never", "former", "current"], p=[0.5 - 0.1 * seed, 0.3, 0.2 + 0.1 * seed]))
        seen = date(2023, 1, 1) + timedelta(days=int(rng.integers(0, 300)))
        sugar: object = "" if rng.random() < 0.2 else round(float(rng.normal(5.5, 1)), 2)
        rows.append([age, smoker, seen.isoformat(), str(rng.choice(["yes", "no"])), sugar, LABELS[int(age < 52)]])
    return rows


def write(path: Path, rows: Sequence[Sequence[object]], header: Sequence[str] = COLUMNS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


def table_site(root: Path, name: str, rows: Sequence[Sequence[object]], lines: str = "") -> Path:
    """The folder of a silo with this table."""
    folder = make_site(root / name, f'data = "{name}.csv"\nlabel = "diagnosis"\n{lines}')
    write(folder / f"{name}.csv", rows)
    return folder


def asked(names: Sequence[str] = NAMES, **changes: Any) -> SchemaContract:
    """A contract about the schema of these silos."""
    base: dict[str, Any] = {
        "name": "trial-schema",
        "consortium": "trial-consortium",
        "invited": tuple(names),
        "label": "diagnosis",
        "labels": LABELS,
        "seed": 2,
        "test_fraction": 0.2,
        "scale": "auto",
        "least_count": 5,
        "limits": Limits(),
        "summary": SUMMARY,
        "amity": "0.1.0",
    }
    return SchemaContract(**{**base, **changes})


def table_trial(tmp_path: Path, contract: SchemaContract | None = None) -> Trial:
    """A hub that asks for a schema, and the folders of silos that have approved it."""
    contract = contract or asked()
    rows = {name: patients(place) for place, name in enumerate(contract.invited)}
    folders = {name: table_site(tmp_path, name, rows[name]) for name in contract.invited}
    for folder in folders.values():
        approved(folder, contract)
    for name in contract.invited:
        write(tmp_path / "whole" / f"{name}.csv", rows[name])
    _offer(tmp_path / "hub", contract)
    run = small_run("fedavg-ft", per_silo=0, model="mlp")
    return Trial(tmp_path / "hub", run, simulated(tmp_path), folders, contract)  # type: ignore[arg-type]


def simulated(tmp_path: Path) -> Silos:
    """The same silos in a simulation, where they agree on a schema in one process.

    They come in the contract's order, and not by name as from a folder: sums over silos would be rounded otherwise.
    """
    whole = f"folder:{tmp_path / 'whole'}"
    found = silos_of(amity.Run(data=whole, seed=2, test_fraction=0.2, label="diagnosis"))
    return replace(found, silos=tuple(sorted(found.silos, key=lambda silo: NAMES.index(silo.name))))


def with_schema(trial: Trial, file: Path, names: Sequence[str] = NAMES, **terms: Any) -> Trial:
    """The same silos with a run whose contract holds this schema, approved by all of them."""
    table = {"schema": str(file), "labels": list(LABELS)}
    reader = DataReader(table, file.parent)
    form = reader.form()
    assert form is not None, reader.problems
    return with_form(trial, form, names, **terms)


def with_form(trial: Trial, form: DataForm, names: Sequence[str] = NAMES, **terms: Any) -> Trial:
    """The same silos with a run about data of this form."""
    contract = contract_of(trial.run, form, names, **{"quorum": len(names), **terms})
    for name in names:
        approved(trial.folders[name], contract)
    _offer(trial.hub, contract)
    return Trial(trial.hub, trial.run, trial.silos, {name: trial.folders[name] for name in names}, contract)


def _offer(hub: Path, contract: Any) -> None:
    folder = hub / "runs" / contract.name
    folder.mkdir(parents=True)
    (folder / "contract.json").write_text(signed(contract))
