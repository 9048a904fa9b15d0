"""Pages as files: the report of runs, and who holds what in a federation that was dealt and not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from amity.record import Manifest, Record
from amity.report.contents import SiloView, View
from amity.report.page.document import report_page, write_report_page, write_text
from amity.report.view import empty_view, view_of


def write_report(records: Sequence[Record], path: str | Path) -> Path:
    """Write the report of one or several runs to a file, or to `report.html` in a directory."""
    return write_report_page(view_of(records), path)


def write_holdings(manifest: Mapping[str, Any], path: str | Path) -> Path:
    """Write a page that shows who holds what, for a federation that was dealt and not run: `Silos.manifest` says it."""
    return write_text(report_page(holdings_view(cast(Manifest, manifest))), path)


def holdings_view(manifest: Manifest) -> View:
    """Return a view that has silos and nothing else."""
    data, setting = manifest.get("data", ""), manifest.get("setting", "")
    count = manifest["classes"]
    sha = manifest.get("sha256", "")
    return {
        **empty_view(f"{setting} on {data}"),
        "data": data,
        "setting": setting,
        "classes": (manifest.get("labels") or [str(number) for number in range(count)]) if count else None,
        "silos": [_silo(manifest, place) for place in range(len(manifest["silos"]))],
        "notes": [*manifest.get("notes", []), *([f"sha256 of the split: {sha[:16]}"] if sha else [])],
    }


def _silo(manifest: Manifest, place: int) -> SiloView:
    """Return what one silo holds; examples to choose a round with are taken from its training data, and count there."""
    told = manifest["silos"][place]
    val = told["val"]
    held = [train + kept for train, kept in zip(told["train"], val or [0] * len(told["train"]), strict=True)]
    return {
        "name": told["name"],
        "group": told["group"],
        "train": sum(told["train"]),
        "val": None if val is None else sum(val),
        "test": sum(told["test"]),
        "held": held,
    }
