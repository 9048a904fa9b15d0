"""Encrypted attention when something goes wrong: damaged letters, models that do not fit, questions that are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest
import torch
from methods.blind_methods import after_a_round, blind
from small import batchnorm, build, copied, fresh_task, plan_of, silos

from amity.contract import Download, InputError, Model, State, Turn
from amity.engines.memory import Memory, wired
from amity.federation.admission import Admission
from amity.federation.encoding import decode, encode
from amity.federation.messages import Told, Upload
from amity.federation.server import ServerSide
from amity.federation.silo import SiloSide
from amity.learn.ciphers import new_keys
from amity.learn.padding import tensor_of
from amity.learn.task import Task
from amity.methods._key_holder import SECRET
from amity.methods._wrapper import Wrapper
from amity.methods.encrypted import Encrypted


@pytest.mark.parametrize("change", ["noise", "cut", "question"])
def test_a_silo_whose_letter_is_damaged_is_refused_and_the_others_go_on(change: str) -> None:
    method = blind("heurfedamp")
    plan, hosted = plan_of(method, at=silos(3), on=fresh_task(), rounds=2, epochs=1)
    sides = {client: SiloSide(plan, client, one) for client, one in hosted.items()}
    wires = {client: wired(side) for client, side in sides.items()}
    honest = wires[1]

    def tampered(content: bytes) -> bytes:
        answer = decode(honest(content))
        if isinstance(answer, Upload) and change != "question":
            sealed = answer.values["sealed"].clone()
            sealed[40:200] = 7 if change == "noise" else 0
            answer = answer._replace(values={**answer.values, "sealed": sealed})
        elif isinstance(answer, Told) and "products" in answer.values and change == "question":
            answer = answer._replace(values={"products": answer.values["products"] * torch.nan})
        return encode(answer)

    wires[1] = tampered
    rounds = list(ServerSide(plan, Memory(plan, wires=wires)).rounds())
    why = "products not finite" if change == "question" else "what is encrypted cannot be used"
    for report in rounds:
        assert report.took_part == [0, 2] and list(report.dropped) == [1]
        assert why in report.dropped[1] and report.dropped[1].startswith("upload refused: ")
    assert not rounds[-1].progress.server["heard"][1]
    assert sides[1].state["params"].equal(fresh_task().initial(plan.fed)["params"])  # it goes on from its old state


@dataclass(frozen=True)
class Sends(Wrapper):
    """A method whose silos have come to this model, whatever their data."""

    model: Model
    evaluates: ClassVar[Literal["held", "server"]] = "held"

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        return client, self.model

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return self.model


@pytest.mark.parametrize(
    ("key", "value", "fits"),
    [
        ("params", 100.0, True),
        ("params", 600.0, False),
        ("params", torch.nan, False),
        ("buffers", 5e3, True),  # a variance, say
        ("buffers", 1e6, False),
        ("buffers", torch.nan, False),
    ],
)
def test_a_model_that_has_no_room_is_sent_as_one_that_the_server_refuses(key: str, value: float, fits: bool) -> None:
    on = fresh_task(batchnorm)
    plan, hosted = plan_of("fedamp", at=silos(2), on=on)
    model = copied(on.initial(plan.fed))
    model[key][1] = value
    method = Encrypted(Sends(build("fedamp"), model), raw=True)
    client = {**method.init_client(on, plan.fed, 0), SECRET: tensor_of(new_keys().secret)}
    down = {"counts": model["counts"]}
    upload = method.local(on, client, down, SiloSide(plan, 0, hosted[0]).turn(1))[1]
    kinds = method.upload_kinds(on, plan.fed, Download({}, {}))
    refused = Admission(kinds).refused(upload)
    assert refused == (None if fits else "upload refused: square not finite")
    if fits:
        assert upload["square"] == (model["params"] - on.initial(plan.fed)["params"]).square().sum()


def test_nobody_joins_a_run_that_has_a_key() -> None:
    method = blind("fedamp")
    plan, _ = plan_of(method, at=silos(2))
    with pytest.raises(InputError, match="has no place for one more silo"):
        method.grow_server(fresh_task(), plan.fed, plan.fed, {})


def test_a_silo_answers_no_other_question() -> None:
    method = blind("fedamp")
    plan, _ = plan_of(method, at=silos(2))
    client = method.init_client(fresh_task(), plan.fed, 0)
    with pytest.raises(InputError, match="a question that is none"):
        method.answer(fresh_task(), client, {"weights": torch.zeros(2)})
    down = {"products": torch.zeros(3, 9), "partners": torch.tensor([1, 1, -1]), "sizes": torch.zeros(3)}
    with pytest.raises(InputError, match="one inner product with each other silo at most"):
        method.answer(fresh_task(), client, {**down, "count": torch.tensor(1)})


def test_inner_products_that_cannot_be_true_are_cut_to_what_can() -> None:
    method = blind("fedamp")
    server, _, _ = after_a_round(method, [[1.0, *[0.0] * 11], [0.0, 2.0, *[0.0] * 10]])
    lie = {"sealed": server["sealed"], "square": server["gram"].diagonal(), "along": torch.zeros(2).double()}
    lie |= {"counts": server["counts"], "products": torch.full((2, 2), 1e9, dtype=torch.float64)}
    after = method.aggregate(server, torch.arange(2), lie, 2)
    assert torch.allclose(after["gram"], torch.tensor([[1.0, 2.0], [2.0, 4.0]]).double(), atol=1e-4)
