"""A program for test_ray.py: two machines (as Ray sees them) on this one, of which the second is lost in round 3."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import torch
from small import CLASSES, FEATURES, fresh_task, run
from test_contract import equal_runs
from torch import nn

from amity.engines import ray as engine

torch.set_num_threads(1)
engine._keep_private()
os.environ["RAY_health_check_period_ms"] = os.environ["RAY_health_check_timeout_ms"] = "500"
os.environ["RAY_health_check_initial_delay_ms"] = "0"

import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from ray.experimental import get_object_locations  # noqa: E402


def wide() -> nn.Module:
    """Large enough that Ray does not carry its states along with an answer."""
    return nn.Sequential(nn.Linear(FEATURES, 3000), nn.Tanh(), nn.Linear(3000, CLASSES))


def main() -> None:
    on = fresh_task(wide)
    undisturbed = run("fedamp", on=on, rounds=4)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    places: list[list[str]] = []
    read = json.loads(sys.argv[1])  # whether somebody reads the states after round 1

    def watched(*parts: Any, **how: Any) -> Iterator[Any]:
        def notify(phase: str, done: int, total: int) -> None:
            phases.append(phase)
            if phases.count("train") == 13:  # five silos, six calls per round: the first of round 3
                cluster.remove_node(second, allow_graceful=False)

        phases: list[str] = []
        for report in engine.spread(*parts, **how, notify=notify):
            if report.round == 1:
                kept = [state.reference for state in report.progress.clients._kept.values()]  # type: ignore[attr-defined]
                found = get_object_locations(kept)
                places.extend(found[reference]["node_ids"] for reference in kept)
                if read:
                    _ = report.progress.clients[0]
            yield report

    reports = run("fedamp", on=on, rounds=4, workers=2, engine=watched)
    found = {
        "equal": equal_runs(undisturbed[2:], reports[2:]),
        "scores": [[score.loss for score in r.scores] for r in reports]
        == [[score.loss for score in r.scores] for r in undisturbed],
        "warnings": [report.warnings for report in reports],
        "copies": [len(nodes) for nodes in places],
        "machines": len({node for nodes in places for node in nodes}),
    }
    print(json.dumps(found))
    ray.shutdown()
    cluster.shutdown()


main()
