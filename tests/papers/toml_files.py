"""Experiments written for a test: one small file, and files that are like it."""

from __future__ import annotations

from pathlib import Path

from amity.papers import spec

SMALL = """
id = "T1"
title = "a table"
paper = "a paper"

[run]
data = "digits"
rounds = 3

[columns.iid]
setting = "iid"

[columns.groups]
setting = "practical"

[rows.fedavg]

[rows.fedamp]
set.sigma = 5.0

[cells.fedamp.groups]
set.self_weight = "group"

[paper_values]
fedavg = { iid = 90.5, groups = "80 ± 1" }

[sizes.quick]
clients = 5

[sizes.paper]
clients = 10
"""


def written(root: Path, **files: str) -> Path:
    """A folder of experiments of one paper."""
    (root / "paper").mkdir()
    for name, text in files.items():
        (root / "paper" / f"{name}.toml").write_text(text, encoding="utf-8")
    return root


def small(root: Path, more: str = "", old: str = "", new: str = "") -> spec.Experiment:
    assert old in SMALL
    return spec.read("paper/one", written(root, one=SMALL.replace(old, new) + more if old else SMALL + more))


LIKE = 'id = "T2"\nlike = "paper/one"\n'


def like(root: Path, text: str) -> spec.Experiment:
    return spec.read("paper/two", written(root, one=SMALL, two=LIKE + text))
