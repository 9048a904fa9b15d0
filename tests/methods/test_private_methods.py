"""Differential privacy and every method of the table: what is allowed takes noisy gradients alone, as many as it says.

`learn/private.py` shows method code no example, so a method that ran to its end has seen none. The rest is refused, and
told why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest
import torch

from amity.config.privacy import Privacy
from amity.contract import CountsGradients, InputError, Turn, UsesExamples, gradients_of
from amity.engines.local.threads import Threads
from amity.engines.memory import Memory
from amity.federation.reports import Round
from amity.federation.resume import begin
from amity.federation.spending import terms_of
from amity.learn.private import Guard, PrivateTask, unseen
from amity.learn.secret_numbers import SecretNumbers
from amity.learn.streams import stream
from amity.methods import METHODS, build
from amity.testing.federation import fresh_task, mlp, plan_of, silos

NOISE = Privacy(clip=1.0, noise=1.0, epsilon=None, delta=None)

REFUSED = {
    *("pooled", "fedavg-ft", "fedprox-ft", "perfedavg", "fedfomo", "fedala", "ifca", "fedbn", "fedbabu"),
    *("accord", "twin", "l2gd"),
}
ALLOWED = [name for name in METHODS if name not in REFUSED]
VARIANTS: Mapping[str, list[dict[str, Any]]] = {
    "ditto": [{"personal_epochs": 3}],
    "fedrep": [{"head_epochs": 2, "body_epochs": 3}],
    "pfedme": [{"steps": 2, "inner_steps": 3}],
    "psgd-moreau": [{"inner_steps": 2}],
    "apfl": [{"adaptive": True}],
    "scaffold": [{"eval_model": "global"}],
}
CASES = [(name, settings) for name in ALLOWED for settings in [{}, *VARIANTS.get(name, [])]]


def _rounds(name: str, settings: Mapping[str, Any], over: Literal["loop", "memory"]) -> tuple[list[Round], list[int]]:
    """The rounds of a run in which silos are absent and lose uploads, and the noisy gradients each silo has made."""
    made, on = build(name, settings), fresh_task(mlp)
    rule: dict[str, Any] = {"participation": 0.8, "drop": 0.3, "drop_phase": "after", "local_epochs_range": (1, 3)}
    plan, hosted = plan_of(made, on=on, rounds=3, **rule)
    plan = plan._replace(privacy=NOISE)
    with Threads(plan, hosted, 1) if over == "loop" else Memory(plan, hosted) as carrier:
        rounds = list(begin(plan, carrier, None).rounds())
        return rounds, [carrier.silos[client].spent for client in range(plan.fed.clients)]


@pytest.mark.parametrize("over", ["loop", pytest.param("memory", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_what_is_allowed_takes_as_many_noisy_gradients_as_the_server_counts(
    name: str, settings: Mapping[str, Any], over: Literal["loop", "memory"]
) -> None:
    rounds, made = _rounds(name, settings, over)
    counted = [0] * len(made)
    for report in rounds:
        assert report.spent is not None and report.spent.keys() == report.epochs.keys() and report.dropped
        for client, (use, _) in report.spent.items():
            counted[client] += use.steps
    assert made == counted and sum(made) > 0
    assert all(score.failed is False for report in rounds for score in report.scores or ())


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_uses_examples_otherwise_says_so(name: str) -> None:
    method = build(name)
    assert isinstance(method, UsesExamples)
    with pytest.raises(InputError, match="differential privacy cannot account for") as refused:
        gradients_of(method, 1, 1)
    assert method.other_use in str(refused.value)


def test_every_method_has_declared_itself() -> None:
    for name in METHODS:
        method = build(name)
        assert isinstance(method, UsesExamples) != isinstance(method, CountsGradients), name


def test_a_full_gradient_of_fedacs_is_refused() -> None:
    with pytest.raises(InputError, match="fedacs needs local=epochs"):
        gradients_of(build("fedacs", {"local": "step"}), 1, 1)


@pytest.mark.parametrize("name", ["ifca", "twin", "fedfomo"])
def test_whoever_looks_at_examples_under_noise_is_stopped_by_the_task_itself(name: str) -> None:
    """A method that was let in by mistake fails in its first turn: nothing of what it has seen is sent."""
    plan, hosted = plan_of(name, on=fresh_task(mlp), rounds=1)
    method, task, fed, solver, *_ = plan
    private = PrivateTask(task, task.prepare(hosted[0].train), Guard(1.0, 1.0, solver.batch, 99), SecretNumbers(b"key"))
    server = method.init_server(task, fed)
    down = method.download(server, torch.arange(fed.clients), 1, lambda role, key: stream(1, role, key)).to(0)
    turn = Turn(1, 1, solver, unseen(), lambda role, epoch: 0)
    with pytest.raises(InputError, match="noisy gradients alone"):
        method.local(private, method.init_client(task, fed, 0), down, turn)


def test_terms_follow_from_a_silos_own_size() -> None:
    plan, _ = plan_of("fedavg", rounds=3, epochs=2, at=silos(2))  # 7 and 15 examples, batches of 8
    wanted = plan._replace(privacy=Privacy(1.0, None, 3.0, None))
    small, large = terms_of(wanted, 0), terms_of(wanted, 1)
    assert (small.rate, small.delta, small.most) == (1.0, 1 / 70, 6)
    assert (large.rate, large.delta, large.most) == (8 / 15, 1 / 150, 12)
    assert small.noise != large.noise and max(small.epsilon, large.epsilon) <= 3.0
    assert min(small.epsilon, large.epsilon) > 2.9
    with pytest.raises(InputError, match="dp_delta needs to be below 1 / n"):
        terms_of(plan._replace(privacy=Privacy(1.0, 1.0, None, 0.1)), 1)
