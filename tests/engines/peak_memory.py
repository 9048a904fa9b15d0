"""A program for test_footprint.py: the most memory that a run takes beyond what its process has before, and what was
estimated."""

from __future__ import annotations

import json
import resource
import sys

import torch
from listening import run_ready
from torch import nn

import amity
from amity.engines.local.footprint import estimate
from amity.prepare import prepare


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(50, 20_000), nn.ReLU(), nn.Linear(20_000, 3))


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def peak() -> int:
    """The most that this program has held; `ru_maxrss` would count what the process had before it became this one."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


def main() -> None:
    name = sys.argv[1]
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(0)

    def silo() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        x = torch.randn(18, 50, generator=rng)
        return x[:12], torch.arange(12) % 3, x[12:], torch.arange(6) % 3

    at = amity.own_silos({f"silo {i}": silo() for i in range(12 if name == "apple" else 40)})
    ready = prepare(amity.Run(name, rounds=3, epochs=1, engine="loop", workers=2), at, model=network)
    plan = ready.plan
    needs = estimate(plan, ready.silos.silos, engine="loop", workers=2)
    assert needs is not None
    before = resident()
    run_ready(ready)
    measured = peak() - before
    print(json.dumps({"measured": measured, "estimated": needs.total}))


main()
