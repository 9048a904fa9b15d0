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
    starts = [(later(client), 40), (drawn_back(later(client), first, 0.5), 40), (first, 40 + ROUNDS)]
    for (start, limit), said in zip(starts, upload[SAID].tolist(), strict=True):
        held_out = find_end(ON, start, asked, limit, "rehearsal").held_out
        assert held_out is not None
        assert said == pytest.approx(-log_odds(float(held_out.mean()), len(held_out), ON.classes), rel=1e-6)
    assert len(set(upload[SAID].tolist())) == 3


def test_nothing_is_said_before_the_last_round_or_without_held_out_examples() -> None:
    method = rehearsed()
    client, server = method.init_client(ON, FED, 0), method.init_server(ON, FED)
    for round, asked in ((ROUNDS - 1, turn(ROUNDS - 1)), (ROUNDS, turn(ROUNDS, held_out=False))):
        down = method.download(server, torch.arange(3), round, None)  # type: ignore[arg-type]
        _, upload = method.local(ON, client, down.to(0), asked)
        assert upload[SAID].tolist() == [0, 0, 0]
        assert upload.keys() == (method.upload_kinds(ON, FED, down) or {}).keys()
    assert SAID in method.measured  # and so it is zero where fewer than `min_count` examples are held out


WORSE = 5.0
# d_i = L_i(s) - L_i(0), half-way and all of it, and what is decided
VOTES = [
    ([-1.0, -1.0, -1.0], [WORSE] * 3, 0.5),
    ([1.0, 1.0, 1.0], [WORSE] * 3, 0.0),
    ([0.0, 0.0, 0.0], [0.0] * 3, 0.0),  # nobody can tell
    ([1.0, 1.0, -31.0], [WORSE] * 3, 0.5),  # to the third one it makes a difference: 1 + 1 - 10
    ([1.0] * 11 + [-1e30], [WORSE] * 12, 0.0),  # but there is no more than that to it: 11 - 10
    ([-1.0] * 11 + [1e30], [WORSE] * 12, 0.5),
    ([0.0, 0.0, 0.0, -1.0, -2.0], [WORSE] * 5, 0.5),  # most hold nothing out, or too little to tell: the others decide
    ([-1.0] * 8, [-2.0] * 7 + [1.0], 1.0),  # -13 is below -8 and below -2 sqrt(29)
    ([-1.0] * 8, [-2.0] * 7 + [3.0], 0.5),  # -11 is below -8, and not below -2 sqrt(37)
    ([-1.0] * 8, [-2.0] * 7 + [7.0], 0.5),  # -8 and -7
    ([WORSE] * 5, [-1.0, -1.0, -1.0, -1.0, -1.0], 1.0),  # -5 is below -2 sqrt(5)
    ([WORSE] * 4, [-1.0, -1.0, -1.0, -0.9], 0.0),  # -3.9 is not below -2 sqrt(3.81)
    ([WORSE] * 12, [1.0] * 11 + [-1e30], 0.0),  # one liar does not send everybody home
]


@pytest.mark.parametrize(("half_way", "all_the_way", "back"), VOTES)
def test_silos_decide_together_by_hand(half_way: list[float], all_the_way: list[float], back: float) -> None:
    method, who = rehearsed(), torch.arange(len(half_way))
    fed = FED._replace(sizes=torch.full((len(who),), 9), keys=who)
    server = method.init_server(ON, fed)
    client = method.init_client(ON, fed, 0)
    _, upload = method.local(ON, client, method.download(server, who, 1, None).to(0), turn(1))  # type: ignore[arg-type]
    uploads = {key: value.expand(len(who), *value.shape).clone() for key, value in upload.items()}
    uploads[SAID] = torch.tensor([[2.0, 2.0 + a, 2.0 + b] for a, b in zip(half_way, all_the_way, strict=True)])
    for round in range(1, ROUNDS + 1):
        server = method.aggregate(server, who, uploads, round)
    last = method.download(server, who, ROUNDS + 1, None)  # type: ignore[arg-type]
    assert last.shared["rehearsal/back"].item() == back and FLAG in last.shared


@pytest.mark.parametrize("back", [0.0, 0.5])
def test_endings_begin_where_was_agreed(back: float) -> None:
    method = rehearsed(start="common")
    client = method.init_client(ON, FED, 0)
    flags = {FLAG: torch.tensor(True), "rehearsal/back": torch.tensor(back)}
    asked, common = turn(ROUNDS + 1), later(client)
    after, upload = method.local(ON, client, {**common, **flags}, asked)
    first = {key: client[KEPT[key]] for key in MODEL}
    start = drawn_back(common, first, 0.5) if back else common
    expected = find_end(ON, start, asked, 40)
    assert not upload and all(torch.equal(after[KEPT[key]], expected.model[key]) for key in MODEL)
    assert method.holds(after).startswith("together, ")


def test_who_had_better_not_join_trains_alone() -> None:
    """From the first model, as long as all rounds and an ending; what was learnt together has no part in it."""
    method = rehearsed(start="common")
    client = method.init_client(ON, FED, 0)
    asked, first = turn(ROUNDS + 1), {key: client[KEPT[key]] for key in MODEL}
    after, _ = method.local(
        ON, client, {**later(client), FLAG: torch.tensor(True), "rehearsal/back": torch.tensor(1.0)}, asked
    )
    expected = find_end(ON, first, asked, ROUNDS + 40, "alone")
    assert all(torch.equal(after[KEPT[key]], expected.model[key]) for key in MODEL)
    assert method.holds(after).startswith("alone, ")


@pytest.mark.parametrize("back", [0.5, 1.0])
def test_who_holds_nothing_out_keeps_the_common_model(back: float) -> None:
    """It has no ending, and a model that was drawn back for one is worth nothing without."""
    method = rehearsed(start="common")
    client = method.init_client(ON, FED, 0)
    down = {**later(client), FLAG: torch.tensor(True), "rehearsal/back": torch.tensor(back)}
    after, _ = method.local(ON, client, down, turn(ROUNDS + 1, held_out=False))
    assert all(torch.equal(after[KEPT[key]], down[key]) for key in MODEL)


def test_half_way_by_hand() -> None:
    model, first = (
        {"params": torch.tensor([a, b]), "buffers": torch.tensor([a])} for a, b in ((8.0, -2.0), (4.0, 2.0))
    )
    found = drawn_back(model, first, 0.25)
    assert found["params"].tolist() == [7.0, -1.0] and found["buffers"].tolist() == [8.0]
    assert torch.equal(drawn_back(model, first, 0.0)["params"], model["params"])
    assert drawn_back(model, first, 1.0) is first  # statistics and counters too


def test_only_who_has_something_to_decide_rehearses() -> None:
    assert type(with_ending(Accord(step_back=0.0), 2, 1, "auto", False)) is Ended
    assert type(with_ending(Accord(start="own"), 2, 1, "auto", False)) is Ended
    assert type(with_ending(Accord(), 2, 1, 5, False)) is Ended  # a given number of epochs is not to be found out
    assert type(with_ending(build("fedavg"), 2, 1, "auto", False)) is Ended
    assert model_of(rehearsed().init_server(ON, FED)).keys() == set(MODEL)
