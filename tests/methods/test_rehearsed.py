"""Rehearsals: what silos say of an ending is what it would be, their word decides, and no single one's does."""

from typing import Any

import pytest
import torch
from small import mlp, randn, silos, task

from amity.contract import MODEL, Data, Federation, Solver, Split, Turn, model_of
from amity.learn.ending import find_end, log_odds
from amity.methods import build
from amity.methods.accord import Accord
from amity.methods.ended import FLAG, KEPT, Ended, with_ending
from amity.methods.rehearsed import SAID, Rehearsed, drawn_back

ROUNDS = 3
ON = task(mlp)
FED = Federation(torch.tensor([12, 9, 7]), torch.arange(3), groups=None, rounds=ROUNDS + 1, seed=0)


def rehearsed(**options: Any) -> Rehearsed:
    method = with_ending(Accord(**options), ROUNDS, 1, "auto", False)
    assert isinstance(method, Rehearsed)
    return method


def turn(round: int, held_out: bool = True) -> Turn:
    one = silos()[0]
    data = Data(one.train, Split(one.test.x, one.test.y) if held_out else None)
    return Turn(round, 1, Solver("adam", 0.01, batch=4), data, lambda role, epoch: sum(map(ord, role)) + epoch)


def later(client: dict[str, Any]) -> dict[str, Any]:
    """A common model that has come some way from the first one."""
    first = {key: client[KEPT[key]] for key in MODEL}
    return {**first, "params": first["params"] + 0.5 * randn(len(first["params"]), seed=3).to(first["params"])}


def test_what_a_silo_says_is_what_the_ending_would_be() -> None:
    method = rehearsed()
    client = method.init_client(ON, FED, 0)
    now = method.download(method.init_server(ON, FED), torch.arange(3), ROUNDS, None)  # type: ignore[arg-type]
    down = {**now.to(0), **later(client)}
    asked = turn(ROUNDS)
    _, upload = method.local(ON, client, down, asked)
    first = {key: client[KEPT[key]] for key in MODEL}
    for start, said in zip([later(client), drawn_back(later(client), first, 0.5)], upload[SAID].tolist(), strict=True):
        held_out = find_end(ON, start, asked, 40, "rehearsal").held_out
        assert held_out is not None
        assert said == pytest.approx(-log_odds(float(held_out.mean()), len(held_out), ON.classes), rel=1e-6)
    assert upload[SAID][0] != upload[SAID][1]


def test_nothing_is_said_before_the_last_round_or_without_held_out_examples() -> None:
    method = rehearsed()
    client, server = method.init_client(ON, FED, 0), method.init_server(ON, FED)
    for round, asked in ((ROUNDS - 1, turn(ROUNDS - 1)), (ROUNDS, turn(ROUNDS, held_out=False))):
        down = method.download(server, torch.arange(3), round, None)  # type: ignore[arg-type]
        _, upload = method.local(ON, client, down.to(0), asked)
        assert upload[SAID].tolist() == [0, 0]
        assert upload.keys() == (method.upload_kinds(ON, FED, down) or {}).keys()
    assert SAID in method.measured  # and so it is zero where fewer than `min_count` examples are held out


# d_i = L_i(h) - L_i(w)
VOTES = [
    ([-1.0, -1.0, -1.0], True),
    ([1.0, 1.0, 1.0], False),
    ([0.0, 0.0, 0.0], False),  # nobody can tell
    ([1.0, 1.0, -31.0], True),  # to the third one it makes a difference: 1 + 1 - 10
    ([1.0] * 11 + [-1e30], False),  # but there is no more than that to it: 11 - 10
    ([-1.0] * 11 + [1e30], True),
    ([0.0, 0.0, 0.0, -1.0, -2.0], True),  # most hold nothing out, or too little to tell: the others decide
]


@pytest.mark.parametrize(("differences", "back"), VOTES)
def test_silos_decide_together_by_hand(differences: list[float], back: bool) -> None:
    method, who = rehearsed(), torch.arange(len(differences))
    fed = FED._replace(sizes=torch.full((len(who),), 9), keys=who)
    server = method.init_server(ON, fed)
    client = method.init_client(ON, fed, 0)
    _, upload = method.local(ON, client, method.download(server, who, 1, None).to(0), turn(1))  # type: ignore[arg-type]
    uploads = {key: value.expand(len(who), *value.shape).clone() for key, value in upload.items()}
    uploads[SAID] = torch.tensor([[2.0, 2.0 + d] for d in differences])
    for round in range(1, ROUNDS + 1):
        server = method.aggregate(server, who, uploads, round)
    last = method.download(server, who, ROUNDS + 1, None)  # type: ignore[arg-type]
    assert last.shared["rehearsal/back"].item() is back and FLAG in last.shared


@pytest.mark.parametrize("back", [False, True])
def test_endings_begin_where_was_agreed(back: bool) -> None:
    method = rehearsed(start="common")
    client = method.init_client(ON, FED, 0)
    flags = {FLAG: torch.tensor(True), "rehearsal/back": torch.tensor(back)}
    asked, common = turn(ROUNDS + 1), later(client)
    after, upload = method.local(ON, client, {**common, **flags}, asked)
    first = {key: client[KEPT[key]] for key in MODEL}
    start = drawn_back(common, first, 0.5) if back else common
    expected = find_end(ON, start, asked, 40)
    assert not upload and all(torch.equal(after[KEPT[key]], expected.model[key]) for key in MODEL)


def test_half_way_by_hand() -> None:
    model, first = (
        {"params": torch.tensor([a, b]), "buffers": torch.tensor([a])} for a, b in ((8.0, -2.0), (4.0, 2.0))
    )
    found = drawn_back(model, first, 0.25)
    assert found["params"].tolist() == [7.0, -1.0] and found["buffers"].tolist() == [8.0]
    assert torch.equal(drawn_back(model, first, 0.0)["params"], model["params"])


def test_only_who_has_something_to_decide_rehearses() -> None:
    assert type(with_ending(Accord(step_back=0.0), 2, 1, "auto", False)) is Ended
    assert type(with_ending(Accord(start="own"), 2, 1, "auto", False)) is Ended
    assert type(with_ending(Accord(), 2, 1, 5, False)) is Ended  # a given number of epochs is not to be found out
    assert type(with_ending(build("fedavg"), 2, 1, "auto", False)) is Ended
    assert model_of(rehearsed().init_server(ON, FED)).keys() == set(MODEL)
