"""What a curious silo works out from its own messages: docs/privacy.md says it, and here it is done.

Both silos follow the method to the letter. One of them keeps what it was sent and what it has sent, and knows the
contract; it uses nothing else. With two silos that is enough to have the other's model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from methods.points import ask
from networks import MemoryNetwork, trial_of
from torch import Tensor

from amity.contract import Method
from amity.federation.encoding import decode
from amity.federation.messages import Message, Train, Upload
from amity.methods import build


class Memoirs:
    """What one silo has got and given, round by round; and, to compare with, what the other has given."""

    def __init__(self, network: MemoryNetwork, own: str) -> None:
        self.own, self.got, self.gave = own, dict[int, Tensor](), dict[int, Tensor]()
        self.of_other: dict[int, Tensor] = {}
        network.before, network.after = self.before, self.after

    def before(self, name: str, message: Message) -> None:
        if name == self.own and isinstance(message, Train):
            self.got[message.round] = message.down["params"].double()

    def after(self, name: str, message: Message, answer: bytes) -> bytes:
        found = decode(answer)
        if isinstance(found, Upload):
            (self.gave if name == self.own else self.of_other)[found.round] = found.values["params"].double()
        return answer


def share_of_other(method: Method, own: Tensor, got: Tensor) -> list[float]:
    """All weights t of the other silo that fit what was got: u = w + t (v - w), with t as the rule has it for w and v.

    The rule is public. It gives t for two models, and u gives v for a t: where both agree is the answer.
    """

    def misfit(t: float) -> float:
        other = own + (got - own) / t
        return float(ask(method, torch.stack([own, other])).weights[0, 1]) - t

    places = torch.linspace(0.01, 1.0, 50).tolist()
    found = []
    for low, high in zip(places, places[1:], strict=False):
        if misfit(low) * misfit(high) <= 0:
            found.append(_root(misfit, low, high))
    return found


def _root(misfit: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if misfit(low) * misfit(middle) <= 0 else (middle, high)
    return (low + high) / 2


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fedamp", {"self_weight": 0.5}),
        ("heurfedamp", {"self_weight": 0.5}),
        ("heurfedamp", {"sigma": 10.0}),  # the weights are not in the contract, only the rule for them
    ],
    ids=["fedamp", "heurfedamp", "heurfedamp without known weights"],
)
def test_one_of_two_silos_has_the_others_model(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    trial = trial_of(tmp_path, name, clients=2, rounds=3, settings=options)
    with trial.network() as network:
        memoirs = Memoirs(network, trial.names[0])
        trial.conduct(network)
    assert trial.phase == "ended"
    for round in (2, 3):  # what is mixed in a round was uploaded in the one before
        own, got, other = memoirs.gave[round - 1], memoirs.got[round], memoirs.of_other[round - 1]
        known = options.get("self_weight")
        weights = [1 - known] if known is not None else share_of_other(build(name, options), own, got)
        guesses = [own + (got - own) / t for t in weights]
        nearest = min(float((guess - other).norm() / (own - other).norm()) for guess in guesses)
        assert len(guesses) <= 3 and nearest < 1e-3, (weights, nearest)


def test_one_of_three_silos_has_a_mixture_only(tmp_path: Path) -> None:
    """With three, what is left after taking out one's own part is a mixture of two models, and neither of them."""
    trial = trial_of(tmp_path, "heurfedamp", clients=3, rounds=2, settings={"self_weight": 0.5})
    found: dict[str, Tensor] = {}
    with trial.network() as network:
        memoirs = Memoirs(network, trial.names[0])

        def after(name: str, message: Message, answer: bytes) -> bytes:
            upload = decode(answer)
            if isinstance(upload, Upload) and upload.round == 1:
                found[name] = upload.values["params"].double()
            return memoirs.after(name, message, answer)

        network.after = after
        trial.conduct(network)
    rest = 2 * memoirs.got[2] - memoirs.gave[1]
    others = [found[name] for name in trial.names[1:]]
    apart = float((others[0] - others[1]).norm())
    assert all(float((rest - other).norm()) > 0.1 * apart for other in others)
