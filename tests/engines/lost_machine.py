"""A program for test_ray.py: two machines (as Ray sees them) on this one, of which the second is lost in round 3."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any

import torch
from small import CLASSES, FEATURES, fresh_task, run, same, silos, solver_of
from torch import nn

from amity.config.participation import Participation
from amity.engines.ray import cluster as ray_cluster
from amity.engines.ray.engine import on_ray
from amity.federation.course import Course
from amity.federation.events import Event
from amity.federation.plan import Plan, federation_of
from amity.federation.reports import Round
from amity.methods import build

torch.set_num_threads(1)
ray_cluster.keep_private()
os.environ["RAY_health_check_period_ms"] = os.environ["RAY_health_check_timeout_ms"] = "500"
os.environ["RAY_health_check_initial_delay_ms"] = "0"

import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402


def wide() -> nn.Module:
    """Large enough that Ray does not carry its states along with an answer."""
    return nn.Sequential(nn.Linear(FEATURES, 3000), nn.Tanh(), nn.Linear(3000, CLASSES))


def main() -> None:
    on, at, method = fresh_task(wide), silos(), build("fedamp")
    undisturbed = run("fedamp", on=on, rounds=4)
    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    ray.init(cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    save = json.loads(sys.argv[1])  # whether round 1 is saved
    plan = Plan(method, on, federation_of(at, 4, 1), solver_of(method), Participation(epochs=2))
    struck: list[int] = []
    rounds: list[Round] = []
    states: list[bool] = []

    def strike(event: Event) -> None:
        if event.what == "round" and event.round == 3 and not struck:
            struck.append(event.round)
            cluster.remove_node(second, allow_graceful=False)

    with Course(plan, on_ray(plan, at, workers=3), events=strike) as course:
        course._open = lambda: on_ray(plan, at, workers=2 if struck else 3)()  # as many as there are machines for

        def each(report: Round) -> None:
            rounds.append(report)
            here = undisturbed[report.round - 1].clients
            states.append(all(map(same, here, course.door.states())))
            if save and report.round == 1:
                course.saved = course.snapshot(report.progress)

        course.run(each)
    found = {
        "equal": states,
        "scores": [report.scores for report in rounds] == [report.scores for report in undisturbed],
        "rounds": [report.round for report in rounds],
        "warnings": [report.warnings for report in rounds],
    }
    print(json.dumps(found))
    ray.shutdown()
    cluster.shutdown()


main()
