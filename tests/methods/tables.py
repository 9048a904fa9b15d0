"""What differs from method to method: what crosses the wire, and when a method with one silo is local training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from small import batchnorm, flat, near, run, silos, solver_of, task
from torch import nn

from amity.federation.reports import Round
from amity.learn.task import Task
from amity.methods import METHODS, build
from amity.testing.cases import Case, usual

ALONE: dict[str, Mapping[str, Any] | None] = {
    # With these settings, a method with one client is local training; None: with none, since it trains parts in turn.
    "separate": {},
    "fedavg": {},
    "fedavg-local": {},
    "fedavg-ft": {"ft_epochs": 0},
    "fedprox": {"mu": 0.0},
    "fedprox-ft": {"mu": 0.0, "ft_epochs": 0},
    "scaffold": {},
    "vrlsgd": {},
    "apfl": {"alpha": 1.0, "adaptive": False},
    "ditto": {"attraction": 0.0, "personal_epochs": "same", "personal_lr": "same"},
    "pfedme": {"steps": 1, "inner_steps": 1, "attraction": 1.0, "eta": 1.0},  # w_i follows theta_i at once
    "mr-mtl": {"attraction": 0.0},
    "fedbn": {},
    "fedrep": None,
    "fedbabu": None,
    "perfedavg": {"adapt_lr": 0.0},
    "fedfomo": {},
    "fedala": {},
    "ifca": {"clusters": 1, "init": "shared"},
    "pfedgraph": {"attraction": 0.0},
    "twin": {"keep": "own"},
    "accord": {"start": "common", "server_momentum": "none", "limit": "none"},
    "pooled": {},
    "fedamp": {"attraction": 0.0},
    "heurfedamp": {"attraction": 0.0},
    "pfedatt": {"attraction": 0.0},
    "fedacs": {},
    "apple": {"eta2": 0.0},  # p = (1) stays; otherwise p c is trained in both factors
    "l2gd": {"attraction": 0.0, "p": 0.0},
    "psgd-share": {},
    "psgd-residual": {"shared_lr_scale": 0.0},  # otherwise the sum is trained in both terms
    "psgd-mixture": {"attraction": 0.0},
    "psgd-moreau": {"attraction": 0.0, "inner_steps": 1},
    "psgd-apfl": {"shared_weight": 0.0},
    "psgd-mtl": {"attraction": 0.0},
}


def trains_alone(case: Case) -> None:
    """With one silo, a method without its pull, tuning and the like is local training."""
    at, on, limit = silos(1), task(batchnorm), ALONE[case.name]
    if limit is None:
        return
    settings = {**case.settings, **limit}
    method = build(case.name, settings)
    solver = solver_of(method)
    first = settings.get("init", settings.get("core_init", "shared"))
    alone = run("separate", settings={"init": first}, at=at, on=on, solver=solver)
    for one, other in zip(alone, run(method, at=at, on=on, solver=solver), strict=True):
        assert near(flat(other), flat(one), 1e-12)


class Wire(NamedTuple):
    """Bytes of one client's messages."""

    down: int
    up: int
    evaluation: int = 0
    first_down: int | None = None  # in round 1, where it differs
    later_down: int | None = None  # from round 3 on, when silos are back that missed a round


def model_bytes(on: Task, itemsize: int) -> int:
    """d parameters and b buffers of the model's type, counters of 8 bytes: counted on an ordinary module."""
    module = on.make()
    numbers = sum(p.numel() for p in module.parameters())
    numbers += sum(b.numel() for b in module.buffers() if b.is_floating_point())
    return itemsize * numbers + 8 * sum(b.numel() for b in module.buffers() if not b.is_floating_point())


def wire_of(case: Case, on: Task, clients: int, itemsize: int = 8, asked: int | None = None) -> Wire:
    model = model_bytes(on, itemsize)
    core = itemsize * sum(p.numel() for p in on.make().parameters())  # apple's buffers stay at the silo
    wanted = min(clients - 1, case.settings.get("budget", clients))
    sent = min((asked or clients) - 1, case.settings.get("budget", 4))  # fedfomo, of those asked
    layers = [[*layer.parameters(recurse=False)] for layer in on.make().modules()]
    layers = [layer for layer in layers if layer] if len(layers) > 1 else [[p] for p in layers[0]]
    head = itemsize * sum(p.numel() for p in layers[-1])  # the last layer, or the bias of a single one
    layers_sent = head if case.settings.get("split") == "body_local" else model - head
    kept = [m for m in on.make().modules() if isinstance(m, nn.BatchNorm1d)]
    kept_bytes = sum(
        itemsize * (2 * m.num_features + 2 * m.num_features) + 8 for m in kept
    )  # with statistics, a counter
    clusters = case.settings.get("clusters", 3) * model
    special = {
        "mr-mtl": Wire(core, core),
        "fedbn": Wire(model - kept_bytes, model - kept_bytes, model - kept_bytes),
        "fedrep": Wire(model - head, model - head, model - head),
        "fedbabu": Wire(model, model - head, model),
        "ifca": Wire(clusters, model + 8, clusters),
        "scaffold": Wire(model + core, model + core),
        # the number of steps goes up; silos that missed round 2 get the mean of round 1 in round 3
        "vrlsgd": Wire(model, model + 8, later_down=model + core),
        "ditto": Wire(model, model, model if case.settings.get("eval_model") == "global" else 0),
        "fedfomo": Wire(sent * (model + 8), model + 8 * sent + 8 * (sent + 1)),  # models, indices; indices, scores
        "pooled": Wire(model, model + itemsize, model),  # with what the silo says of the model that it was sent
        "accord": Wire(model, model + itemsize, model),
        "apple": Wire(wanted * core, core + 8 * wanted, first_down=0),  # first cores come from seeds
        "l2gd": Wire(core + 16, core, first_down=16),  # two numbers of coins; the first model comes from the seed
        "psgd-share": Wire(layers_sent, layers_sent),
        "psgd-residual": Wire(core, core),
        "psgd-mixture": Wire(core, core),
        "psgd-moreau": Wire(core, core),
    }
    if case.name in special:
        return special[case.name]
    # What the row of the table says: nothing, or a model, and one more to be evaluated where that is the server's.
    entry, whole = METHODS[case.name], {"0": 0, "d": model}
    return Wire(whole[entry.down], whole[entry.up], model if case.method.evaluates == "server" else 0)


def bytes_of(report: Round, wire: Wire, active: int) -> bool:
    down = wire.first_down if report.round == 1 and wire.first_down is not None else wire.down
    if report.round > 2 and wire.later_down is not None:
        down = wire.later_down
    sent = (report.bytes_down, report.bytes_up, report.bytes_eval)
    return sent == (active * down, active * wire.up, 5 * wire.evaluation)


def sends_what_the_formula_says(case: Case) -> None:
    """Four of five silos take part; buffers and counters travel with the parameters."""
    wire = wire_of(case, task(batchnorm), 5, asked=4)
    assert all(bytes_of(report, wire, 4) for report in usual(case, "loop"))
