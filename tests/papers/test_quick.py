"""Every experiment runs at size quick, in one go that shares its runs; about ten minutes on two cores."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from amity.cli.app import main
from amity.papers import reproduce, spec, tables


@pytest.mark.slow
def test_every_experiment_runs_at_size_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["amity", "reproduce", "all", "--size", "quick", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    for name in spec.names():
        experiment = spec.read(name)
        if "quick" not in experiment.sizes:
            continue
        assert reproduce.missing(experiment, "quick", tmp_path) == 0
        folder = tmp_path / name.partition("/")[0] / "quick"
        for output in experiment.outputs:
            for ending in ("md", "csv") if output.kind in tables.KINDS else ("png", "pdf"):
                assert (folder / f"{output.name}.{ending}").stat().st_size > 0
