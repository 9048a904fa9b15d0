"""Encrypted attention: the same models as in plain, from a server that never has one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from methods.blind_methods import after_a_round, blind, mixtures, no_draws, plain
from small import batchnorm, flat, fresh_task, plan_of, run, silos, task

from amity.contract import InputError
from amity.encrypted_runs import ENCRYPTED
from amity.engines.memory import Memory, wired
from amity.federation.encoding import decode
from amity.federation.messages import Ask, Told, Upload
from amity.federation.server import ServerSide
from amity.federation.silo import SiloSide
from amity.learn.ciphers import Holder
from amity.learn.padding import bytes_of
from amity.methods._key_holder import PRIVATE, SECRET


def same_course(name: str, tolerance: float = 1e-5, settings: dict[str, Any] | None = None, **options: Any) -> None:
    """Equal models and weights, round by round, up to the noise on inner products."""
    usual: dict[str, Any] = {"at": silos(3), "rounds": 2, "epochs": 1, **options}
    seen, hidden = run(plain(name, **settings or {}), **usual), run(blind(name, **settings or {}), **usual)
    for one, other in zip(seen, hidden, strict=True):
        assert one.weights is not None and other.weights is not None
        assert torch.allclose(one.weights, other.weights, atol=tolerance, equal_nan=True)
        assert one.took_part == other.took_part and one.dropped == other.dropped
    assert torch.allclose(flat(seen[-1]), flat(hidden[-1]), atol=tolerance)


@pytest.mark.parametrize(("name", "engine"), [*((name, "loop") for name in ENCRYPTED), ("twin", "memory")])
def test_models_are_those_of_the_run_in_plain(name: str, engine: str) -> None:
    same_course(name, engine=engine)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCRYPTED)
@pytest.mark.parametrize("engine", ["loop", "memory"])
def test_so_they_are_after_more_rounds_of_all_silos(name: str, engine: str) -> None:
    same_course(name, engine=engine, at=silos(), rounds=6)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("heurfedamp", {"similarity_on": "update", "self_weight": 0.3}),
        ("fedamp", {"mode": "theory", "function": "pseudo_huber"}),
        ("fedacs", {"damping": 0.5, "pool": "latest"}),
    ],
)
def test_options_of_the_rule_mean_what_they_mean_in_plain(name: str, settings: dict[str, Any]) -> None:
    same_course(name, settings=settings)


def test_silos_that_are_absent_or_drop_out_keep_their_last_model() -> None:
    same_course(
        "fedamp", at=silos(4), settings={"pool": "latest"}, participation=0.75, drop=0.34, drop_phase="after", rounds=3
    )


def test_buffers_and_counters_are_mixed_too() -> None:
    options: dict[str, Any] = {"on": task(batchnorm), "at": silos(3), "rounds": 2, "epochs": 1}
    seen, hidden = run(plain("heurfedamp"), **options)[-1], run(blind("heurfedamp"), **options)[-1]
    for one, other in zip(seen.models, hidden.models, strict=True):
        assert torch.equal(one["counts"], other["counts"])
        assert all(torch.allclose(one[key], other[key], atol=1e-5) for key in ("params", "buffers"))


def test_a_run_that_goes_on_from_what_was_saved_is_the_one_that_was_not_interrupted() -> None:
    options: dict[str, Any] = {"at": silos(2), "rounds": 2, "epochs": 1}
    whole = run(blind("heurfedamp"), **options)[-1]
    begun = run(blind("heurfedamp"), stop_after=1, **options)[-1]
    rest = run(blind("heurfedamp"), start=begun.saved, **options)
    assert [report.round for report in rest] == [2]
    assert torch.allclose(flat(rest[-1]), flat(whole), atol=1e-5)
    assert torch.equal(rest[-1].server["keys"], begun.server["keys"])  # nothing was agreed on anew


# A round by hand


def test_a_round_by_hand() -> None:
    """Three silos have moved by (3, 0, ...), (3, 4, 0, ...) and (0, 0, 2, 0, ...): inner products 9, 0 and 0."""
    method = blind("heurfedamp", similarity_on="update", sigma=2.0)
    moved = [[3.0, 0, 0, *[0.0] * 9], [3.0, 4, 0, *[0.0] * 9], [0, 0, 2.0, *[0.0] * 9]]
    server, clients, first = after_a_round(method, moved)
    gram = torch.tensor([[9.0, 9, 0], [9, 25, 0], [0, 0, 4]], dtype=torch.float64)
    assert torch.allclose(server["gram"], gram, atol=1e-4)
    down = method.download(server, torch.arange(3), 2, no_draws)
    cosine = torch.tensor([[1, 0.6, 0], [0.6, 1, 0], [0, 0, 1]], dtype=torch.float64)
    weights = (2 * cosine).exp() / (2 * cosine).exp().sum(1, keepdim=True)
    assert down.weights is not None and torch.allclose(down.weights, weights, atol=1e-4)
    assert set(down.each) == {"mixture", "counts"}  # and no model
    expected = first + weights @ torch.tensor(moved, dtype=torch.float64)
    assert torch.allclose(mixtures(method, server, clients, down), expected, atol=1e-3)
    used = first + down.weights @ torch.tensor(moved, dtype=torch.float64)
    assert torch.allclose(mixtures(method, server, clients, down), used, atol=1e-7)


def test_angles_from_the_origin_need_what_silos_say_of_the_first_model() -> None:
    method = blind("fedacs", p="none")
    moved = [[0.5, *[0.0] * 11], [0.0, 0.25, *[0.0] * 10]]
    server, _, first = after_a_round(method, moved)
    down = method.download(server, torch.arange(2), 2, no_draws)
    models = first + torch.tensor(moved, dtype=torch.float64)
    cosine = torch.nn.functional.cosine_similarity(models[0], models[1], dim=0).clamp(min=0)
    kept = torch.eye(2, dtype=torch.float64) + cosine * torch.eye(2, dtype=torch.float64).flip(0)
    assert down.weights is not None and cosine > 0.1
    assert torch.allclose(down.weights, kept / kept.sum(1, keepdim=True), atol=1e-5)


# What crosses


def test_no_model_and_no_key_crosses_in_plain() -> None:
    """All bytes between server and silos: they hold neither the secret key nor the numbers of any model."""
    method = blind("fedamp")
    plan, hosted = plan_of(method, at=silos(3), on=fresh_task(), rounds=2, epochs=1)
    sides = {client: SiloSide(plan, client, one) for client, one in hosted.items()}
    crossed: list[bytes] = []

    def tapped(client: int) -> Any:
        wire = wired(sides[client])

        def through(content: bytes) -> bytes:
            crossed.append(content)
            answer = wire(content)
            crossed.append(answer)
            return answer

        return through

    server = ServerSide(plan, Memory(plan, wires={client: tapped(client) for client in sides}))
    models = []
    for _ in server.rounds():
        models += [side.state["params"] for side in sides.values()]
    secrets = {bytes_of(side.state[SECRET]) for side in sides.values()}
    assert len(secrets) == 1 and all(not len(side.state[PRIVATE]) for side in sides.values())
    (secret,) = secrets
    everything = b"".join(crossed)
    assert secret[1000:1040] not in everything and secret[-80:-40] not in everything
    for model in models:
        assert model.numpy().tobytes()[:16] not in everything
        assert model.float().numpy().tobytes()[:8] not in everything
    kinds = [type(decode(content)) for content in crossed]
    assert kinds.count(Told) == kinds.count(Ask) == 3 + 1 + 3 + 2 * 3
    told = [message.values for message in map(decode, crossed) if isinstance(message, Upload)]
    assert all(set(values) == {"sealed", "square", "along", "counts"} for values in told)
    assert all(not values["along"].any() for values in told)  # fedamp sees distances: nothing else is said


def test_the_server_has_no_key() -> None:
    seen = run(blind("fedamp"), at=silos(3), rounds=1, epochs=1)[-1]
    secret = bytes_of(seen.clients[0][SECRET])
    assert all(bytes_of(state[SECRET]) == secret for state in seen.clients)
    for key, value in seen.server.items():
        assert secret[1000:1040] not in value.contiguous().numpy().tobytes(), key
    with pytest.raises(InputError, match="cannot be used"):
        Holder(bytes_of(seen.server["keys"]))
