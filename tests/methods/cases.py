"""The methods that the laws are put to: every row of the table, and settings that are worth a run of their own."""

from __future__ import annotations

from amity.methods import METHODS
from amity.testing.cases import Case

VARIANTS = [
    Case("separate", {"init": "independent"}),
    Case("fedavg", {"weighting": "uniform"}),
    Case("fedavg-ft", {"ft_epochs": 1, "ft_lr": 0.01}),
    Case("fedprox", {"mu": 1.0}),
    Case("apfl", {"adaptive": True, "alpha": 0.5}),
    Case("ditto", {"eval_model": "global", "weighting": "samples"}),
    Case("ditto", {"personal_epochs": 1, "personal_lr": 0.1}),
    Case("fedrep", {"head_epochs": 1, "body_epochs": "same", "weighting": "uniform"}),
    Case("fedbabu", {"ft_part": "head", "ft_epochs": 1, "ft_lr": 0.01}),
    Case("perfedavg", {"variant": "HF"}),
    Case("fedala", {"layers": 9, "share": 0.5}),
    Case("ifca", {"clusters": 2, "init": "independent", "weighting": "samples"}),
    Case("fedamp", {"mode": "theory", "alpha": 1.0}),
    Case("fedamp", {"mode": "theory", "alpha": 1e4, "on_negative": "raw", "sigma": 1e5}),
    Case("fedamp", {"self_weight": 0.4, "start": "own", "alpha": 1.0}),
    Case("fedamp", {"self_weight": "group", "pool": "latest"}),
    Case("fedamp", {"init": "independent", "pool": "latest"}),
    Case("heurfedamp", {"similarity_on": "update", "sigma": 5.0}),
    Case("heurfedamp", {"self_weight": 0.3, "pool": "latest"}),
    Case("pfedatt", {"kernel": "euclidean", "k": 3, "sigma": 2.0}),
    Case("pfedatt", {"self_weight": "softmax", "pool": "latest"}),
    Case("pfedatt", {"mode": "step", "kernel": "euclidean", "k": 3, "alpha": 1.0}),
    Case("fedacs", {"p": "none", "pool": "latest"}),
    Case("fedacs", {"damping": 0.5, "local": "step"}),
    Case("pfedgraph", {"alpha": 2.0, "pool": "latest"}),
    Case("apple", {"budget": 2, "core_init": "independent", "scheduler": "exp"}),
    Case("apple", {"budget": 1, "selection": "uniform", "lr_scale": "m", "first_relations": "uniform", "eta2": 0.1}),
    Case("l2gd", {"attraction": 2.0, "p": 0.5, "init": "independent"}),
    Case("psgd-share", {"split": "body_local", "shared_lr_scale": "1/m", "weighting": "samples"}),
    Case("psgd-apfl", {"shared_weight": 0.25, "phi": 2.0}),
    Case("psgd-mtl", {"attraction": 0.5, "phi": 2.0}),
]
DEFAULTS = [Case(name) for name in METHODS]
CASES = [*DEFAULTS, *VARIANTS]
