"""The engine in one process: what it reports, what it does when something fails, and that it cleans up."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pytest
import torch
from small import Seen, batchnorm, copied, flat, plan_of, run, same, scores_of, silo, silos, solver_of, task
from torch import Tensor, nn

from amity.config.participation import Participation
from amity.contract import Download, Federation, InputError, Kinds, Model, Pick, Solver, Split, State, Turn, model_of
from amity.engines.local.simulate import simulate
from amity.engines.local.stacked import Engine
from amity.engines.local.threads import Threads
from amity.federation.events import Event, Listener, silent
from amity.federation.plan import federation_of
from amity.federation.reports import Round
from amity.federation.server import ServerSide
from amity.learn.streams import key_of, stream
from amity.learn.task import Task
from amity.methods import build


def nothing(task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
    return client, {}


@dataclass(frozen=True)
class Toy:
    """A method made of whatever a test needs."""

    work: Callable[[Task, State, State, Turn], tuple[State, State]] = nothing
    server: State = field(default_factory=dict)
    client: State = field(default_factory=dict)
    sends: Callable[[State, Tensor, int], Download] = lambda server, who, round: Download({}, {})
    stores: Callable[[State, Tensor, State], State] = lambda server, who, uploads: server
    kinds: Kinds | None = None  # what it says about its uploads
    paired: tuple[str, ...] = ()
    evaluates: Literal["held", "server"] = "held"

    solver: ClassVar[Solver] = Solver("sgd", 0.1, batch=8)
    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)

    def init_server(self, task: Task, fed: Federation) -> State:
        return self.server

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return {**task.initial(fed), **self.client, "place": torch.tensor(client)}

    def download(self, server: State, who: Tensor, round: int, rng: Any) -> Download:
        return self.sends(server, who, round)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        return self.work(task, client, down, turn)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds | None:
        return self.kinds

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return self.stores(server, who, uploads)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)


def begin(method: Any, *, rounds: int = 3, workers: int = 2, events: Listener = silent, **rule: Any) -> Iterator[Round]:
    at = silos()
    fed = federation_of(at, rounds, 1)
    return simulate(method, task(), at, fed, solver_of(method), Participation(**rule), workers=workers, events=events)


def workers_alive() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("amity")]


# Public facts


def test_federation_of_silos() -> None:
    fed = federation_of(silos(), 7, 3)
    assert fed.sizes.tolist() == [7, 15, 9, 12, 10] and fed.clients == 5
    assert fed.keys.tolist() == [key_of(name) for name in ("ash", "birch", "cedar", "elm", "fir")]
    assert fed.groups is not None and fed.groups.tolist() == [0, 1, 0, 1, 0]
    assert (fed.rounds, fed.seed) == (7, 3)
    mixed = [silo("ash", 7), silo("elm", 9)._replace(group=None)]
    assert federation_of(mixed, 7, 3).groups is None


# Errors say where


@pytest.mark.parametrize("workers", [1, 2])
def test_input_errors_carry_silo_round_and_method(workers: int) -> None:
    def work(task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        if int(client["place"]) == 2 and turn.round == 2:
            raise InputError("toy needs luck")
        return client, {}

    with pytest.raises(InputError, match="silo cedar, round 2, Toy: toy needs luck"):
        list(begin(Toy(work), workers=workers))
    assert workers_alive() == []


def test_other_errors_keep_their_type_and_get_a_note() -> None:
    def work(task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        if int(client["place"]) == 1:
            raise ZeroDivisionError("by zero")
        return client, {}

    with pytest.raises(ZeroDivisionError, match="by zero") as caught:
        list(begin(Toy(work)))
    assert caught.value.__notes__ == ["silo birch, round 1, Toy"]
    assert workers_alive() == []


def test_errors_of_an_evaluation_say_where_too() -> None:
    """Fine-tuning trains there, and data that cannot be evaluated are met there."""
    at = silos()
    at[3] = at[3]._replace(test=Split(at[3].test.x[:, :2], at[3].test.y))
    with pytest.raises(RuntimeError) as caught:
        run("fedavg", at=at)
    assert any("silo elm, round 1" in note for note in getattr(caught.value, "__notes__", []))


# Interrupts


def test_closing_the_run_ends_its_threads() -> None:
    steps = begin(build("fedavg"), rounds=50)
    next(steps)
    assert workers_alive()
    steps.close()  # type: ignore[attr-defined]
    assert workers_alive() == []


def test_finished_runs_leave_no_threads() -> None:
    assert len(list(begin(build("fedamp")))) == 3
    assert workers_alive() == []


def test_interrupt_stops_turns_at_their_next_epoch() -> None:
    """A listener that raises stands for ctrl-C in the engine's thread, while two turns are far from done."""
    epochs = []

    def work(task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        if int(client["place"]) == 0:
            return client, {}
        for epoch in range(1, 10_000):
            turn.rng("train", epoch)
            epochs.append(epoch)
            time.sleep(0.001)
        return client, {}

    def interrupt(event: Event) -> None:
        if event.what == "trained":
            raise KeyboardInterrupt

    begun = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        list(begin(Toy(work), events=interrupt))
    assert time.perf_counter() - begun < 5 and len(epochs) < 10_000
    assert workers_alive() == []


def test_events_count_silos_per_phase() -> None:
    seen: list[Event] = []
    main = threading.get_ident()

    def listen(event: Event) -> None:
        assert threading.get_ident() == main
        seen.append(event)

    (report,) = begin(build("fedavg"), rounds=1, events=listen, participation=0.6)
    assert {event.round for event in seen} == {1}
    begun, *trained, aggregated = seen[:5]
    assert (begun.what, begun.total) == ("round", 3) and (aggregated.what, aggregated.total) == ("aggregated", 3)
    assert [(event.what, event.done, event.total) for event in trained] == [("trained", i, 3) for i in (1, 2, 3)]
    assert sorted(event.silo or "" for event in trained) == [str(i) for i in report.took_part]
    assert all(event.bytes == report.bytes_up // 3 and event.seconds is not None for event in trained)
    assert [(event.what, event.done, event.total) for event in seen[5:]] == [("measured", i, 5) for i in range(1, 6)]


def test_events_say_who_dropped_and_whose_upload_was_refused() -> None:
    seen: list[Event] = []
    toy = Toy(broken("params"), client={"turns": torch.tensor(0), "pair": torch.tensor(0)})
    (report,) = begin(toy, rounds=1, events=seen.append, drop=0.2, drop_phase="after")
    told = {(event.what, event.silo): event.words for event in seen if event.what in ("dropped", "refused")}
    lost = {("dropped", str(i)): why for i, why in report.dropped.items() if i != 3}
    assert told == {**lost, ("refused", "3"): "upload refused: params not finite"} and len(lost) == 1


# What a round reports


def test_rounds_are_reported_in_order_with_a_score_for_everybody() -> None:
    rounds = list(begin(build("fedavg"), participation=0.4))
    assert [report.round for report in rounds] == [1, 2, 3]
    for report in rounds:
        assert [score.examples for score in scores_of(report)] == [6] * 5
        assert set(report.epochs) == set(report.took_part) and len(report.took_part) == 2
        assert set(report.epochs.values()) == {5}  # the default
        assert {"download", "train", "aggregate", "evaluate"} == set(report.seconds)
        assert all(seconds >= 0 for seconds in report.seconds.values())


@pytest.mark.parametrize("name", ["separate", "fedavg", "fedavg-ft", "fedamp", "apple"])
def test_scores_are_those_of_the_personal_models_on_the_test_data(name: str) -> None:
    at, on = silos(), task(batchnorm)
    for report in run(name, at=at, on=on, participation=0.6):
        for client, score in enumerate(scores_of(report)):
            again = on.evaluate(report.personal(client), at[client].test)
            assert torch.equal(report.each[client], again.right) and score.loss == again.loss
            assert score.main == again.main


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("name", ["separate", "fedavg-ft"])
def test_validation_scores_are_those_of_the_personal_models(name: str, engine: Engine) -> None:
    """Silos without validation data have none; the test scores do not depend on them."""
    at, on = silos(), task()
    held = [one._replace(val=Split(one.train.x[::2], one.train.y[::2])) if i % 2 else one for i, one in enumerate(at)]
    with_val, without = run(name, at=held, on=on, engine=engine), run(name, at=at, on=on, engine=engine)
    for report, plain in zip(with_val, without, strict=True):
        for client, (score, other) in enumerate(zip(scores_of(report), scores_of(plain), strict=True)):
            val = held[client].val
            assert score.val == (None if val is None else on.evaluate(report.personal(client), val).main)
            assert torch.equal(report.each[client], plain.each[client]) and other.val is None


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_the_training_loss_is_that_of_the_personal_models_and_only_where_asked_for(engine: Engine) -> None:
    at, plain = silos(), task()
    asked = copy.copy(plain)
    asked.train_loss = True
    for report, other in zip(
        run("ditto", at=at, on=asked, engine=engine), run("ditto", at=at, on=plain, engine=engine), strict=True
    ):
        for client, (score, without) in enumerate(zip(scores_of(report), scores_of(other), strict=True)):
            train = at[client].train
            again = asked.evaluate(report.personal(client), train).loss / len(train.y)
            assert score.train_loss == pytest.approx(again, rel=1e-5) and without.train_loss is None
            assert torch.equal(report.each[client], other.each[client]) and score.main == without.main


@pytest.mark.parametrize("name", ["fedavg-ft", "fedamp", "apple", "twin"])
@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_rounds_without_evaluation_change_nothing_else(name: str, engine: Engine) -> None:
    often = run(name, rounds=5, engine=engine, participation=0.6)
    seldom = run(name, rounds=5, engine=engine, participation=0.6, evaluate_every=2)
    assert [report.scores is not None for report in seldom] == [False, True, False, True, True]  # and the last
    for one, two in zip(often, seldom, strict=True):
        assert all(same(a, b) for a, b in zip(one.clients, two.clients, strict=True))
        assert same(one.progress.server, two.progress.server)
        assert (one.holds, one.bytes_down, one.bytes_up) == (two.holds, two.bytes_down, two.bytes_up)
        assert (one.weights is None) == (two.weights is None)
        if one.weights is not None and two.weights is not None:
            assert same({"weights": one.weights}, {"weights": two.weights})
        assert two.bytes_eval == (0 if two.scores is None else one.bytes_eval)
        if two.scores is not None:
            assert [score.loss for score in scores_of(one)] == [score.loss for score in two.scores]


def test_personal_models_are_not_made_in_rounds_without_evaluation() -> None:
    made: list[int] = []

    class Counted(Toy):
        def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
            made.append(turn.round - 1)
            return model_of(client)

    at = silos(2)
    fed = federation_of(at, 4, 1)
    list(simulate(Counted(), task(), at, fed, Toy.solver, Participation(), workers=1, evaluate_every=3))
    assert set(made) == {3, 4}


def test_recorded_weights_have_a_row_for_everybody_asked() -> None:
    for report in run("fedamp", participation=0.6):
        assert report.weights is not None and report.weights.shape == (5, 5)
        asked = sorted(report.epochs)
        empty = report.weights.isnan().all(1)
        assert [i for i in range(5) if not empty[i]] == asked
        torch.testing.assert_close(report.weights[asked].sum(1), torch.ones(3, dtype=torch.float64))
    assert all(report.weights is None for report in run("fedavg"))


def test_learnt_weights_are_read_from_the_clients() -> None:
    report = run("apple")[-1]
    want = torch.stack([client["relations"] for client in report.clients])
    assert report.weights is not None and torch.equal(report.weights, want)


def test_epochs_of_a_range_reach_the_clients() -> None:
    """One optimiser step per epoch on one batch: BatchNorm's counter is the number of epochs."""
    solver = solver_of(build("fedavg-local"), batch=100)
    reports = run("fedavg-local", on=task(batchnorm), rounds=1, solver=solver, local_epochs_range=(1, 9))
    counted = [int(client["counts"]) for client in reports[0].clients]
    assert counted == [reports[0].epochs[i] for i in range(5)] and len(set(counted)) > 1


def test_streams_are_keyed_by_seed_role_client_round_and_epoch() -> None:
    drawn: dict[tuple[int, int], list[float]] = {}

    def number(rng: torch.Generator) -> float:
        return torch.rand((), generator=rng).item()

    def work(task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        drawn[int(client["place"]), turn.round] = [number(turn.rng("train", 1)), number(turn.rng("luck", 2))]
        return client, {}

    keys = federation_of(silos(), 3, 4).keys.tolist()
    run(Toy(work), seed=4)
    assert drawn == {
        (i, round): [number(stream(4, "train", keys[i], round, 1)), number(stream(4, "luck", keys[i], round, 2))]
        for i in range(5)
        for round in (1, 2, 3)
    }


def test_rate_falls_from_round_to_round() -> None:
    rates: dict[int, float] = {}

    def work(task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        rates[turn.round] = turn.solver.rate_at(turn.round)
        return client, {}

    run(Toy(work), solver=Solver("sgd", 0.4, decay=0.5, batch=8))
    assert rates == {1: 0.4, 2: 0.2, 3: 0.1}


def test_reports_stay_what_they_were() -> None:
    """Storage is handed over from round to round: nothing that was reported may be written to afterwards."""
    for name in ("fedamp", "fedavg", "apple", "fedavg-local"):
        kept = []
        plan, at = plan_of(build(name), rounds=4, participation=0.8)
        with Threads(plan, at, 2) as carrier:
            for report in ServerSide(plan, carrier).rounds():
                states, server = carrier.door.states(), report.progress.server
                kept.append((server, copied(server), states, [copied(state) for state in states]))
        for server, then, states, before in kept:
            assert same(server, then) and all(map(same, states, before))


def test_personal_models_can_be_had_after_the_run() -> None:
    """Those of the last round, also for a method that trains for them."""
    plan, at = plan_of("fedavg-ft")
    with Threads(plan, at, 2) as carrier:
        server = ServerSide(plan, carrier)
        *_, last = server.rounds()
        with pytest.raises(InputError, match="silo ash was not told to keep a model: finish the run"):
            carrier.door.delivered()
        server.keep()
        models = carrier.door.delivered()
    assert last.scores is not None
    for client, model in enumerate(models):
        assert task().evaluate(model, at[client].test).loss == last.scores[client].loss


def test_a_finished_run_has_nothing_left_to_do() -> None:
    done = run("fedavg")
    assert run("fedavg", start=done[-1].saved) == []


def test_more_rounds_continue_a_shorter_run() -> None:
    """Where the method does not look at the planned number of rounds."""
    short = run("fedavg", rounds=2)
    assert torch.equal(flat(run("fedavg", rounds=4, start=short[-1].saved)[-1]), flat(run("fedavg", rounds=4)[-1]))


# Uploads: refused, lost, and where they are stored


def broken(where: str) -> Callable[[Task, State, State, Turn], tuple[State, State]]:
    def work(task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        bad = int(client["place"]) == 3
        upload = {"params": torch.zeros(2), "other": torch.zeros(1), "wanted": torch.zeros(1, dtype=torch.int64)}
        if bad and where:
            upload[where] = torch.full_like(upload[where], torch.nan)
        return {**client, "turns": client["turns"] + 1, "pair": client["pair"] + 1}, upload

    return work


@pytest.mark.parametrize("where", ["params", "other"])
def test_refused_uploads_are_logged_and_rolled_back(where: str) -> None:
    seen: list[list[int]] = []

    def stores(server: State, who: Tensor, uploads: State) -> State:
        seen.append(who.tolist())
        assert all(len(value) == 4 for value in uploads.values())
        return server

    toy = Toy(broken(where), client={"turns": torch.tensor(0), "pair": torch.tensor(0)}, stores=stores)
    for number, report in enumerate(run(toy), 1):
        assert report.took_part == [0, 1, 2, 4]
        assert report.dropped == {3: f"upload refused: {where} not finite"}
        assert report.warnings == [f"upload refused: {where} not finite; training diverges, try a smaller rate"]
        assert [int(client["turns"]) for client in report.clients] == [number, number, number, 0, number]
    assert seen == [[0, 1, 2, 4]] * 3


def test_lost_uploads_roll_back_paired_keys_only() -> None:
    state = {"turns": torch.tensor(0), "pair": torch.tensor(0)}
    toy = Toy(broken(""), client=state, paired=("pair",))
    (report,) = run(toy, rounds=1, drop=0.4, drop_phase="after")
    for i, client in enumerate(report.clients):
        assert int(client["turns"]) == 1
        assert int(client["pair"]) == (0 if i in report.dropped else 1)


def test_a_round_without_any_accepted_upload_is_a_no_op_and_counts() -> None:
    def work(task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        return client, {"params": torch.full((2,), torch.inf)}

    def stores(server: State, who: Tensor, uploads: State) -> State:
        raise AssertionError("nothing to aggregate")

    rounds = run(Toy(work, server={"params": torch.ones(2)}, stores=stores))
    assert [report.round for report in rounds] == [1, 2, 3]
    assert all(report.took_part == [] and report.bytes_up == 0 for report in rounds)
    assert rounds[-1].progress.server["params"].tolist() == [1, 1]


def echo(task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
    """Keep what was received, upload another vector under the same name."""
    return {**client, "seen": down["params"]}, {"params": torch.full((2,), float(client["place"]))}


def kept_by(report: Seen) -> list[list[float]]:
    return [client["seen"].tolist() for client in report.clients]


@pytest.mark.parametrize("workers", [1, 2])
def test_uploads_do_not_overwrite_what_clients_keep(workers: int) -> None:
    """Uploads take the place of downloads; a client that keeps its download must keep its value."""
    toy = Toy(
        echo,
        client={"seen": torch.zeros(2)},
        sends=lambda server, who, round: Download({}, {"params": 10.0 + who[:, None].expand(-1, 2).clone()}),
        stores=lambda server, who, uploads: uploads,
    )
    for report in run(toy, workers=workers):
        assert kept_by(report) == [[10.0 + i] * 2 for i in range(5)]
        assert report.progress.server["params"].tolist() == [[float(i)] * 2 for i in range(5)]


@pytest.mark.parametrize("workers", [1, 2])
def test_uploads_do_not_overwrite_one_row_shown_to_all(workers: int) -> None:
    """A method may send one vector as everybody's row (stride 0): the first upload must not reach the others."""
    toy = Toy(
        echo,
        client={"seen": torch.zeros(2)},
        sends=lambda server, who, round: Download({}, {"params": torch.full((1, 2), 7.0).expand(len(who), -1)}),
        stores=lambda server, who, uploads: uploads,
    )
    for report in run(toy, workers=workers):
        assert kept_by(report) == [[7.0] * 2] * 5
        assert report.progress.server["params"].tolist() == [[float(i)] * 2 for i in range(5)]


def test_uploads_do_not_overwrite_the_server() -> None:
    """The server sends its own rows; the state before the round must stay what it was."""
    stored = torch.arange(10.0).view(5, 2)
    toy = Toy(
        echo,
        server={"params": stored},
        client={"seen": torch.zeros(2)},
        sends=lambda server, who, round: Download({}, {"params": server["params"][:]}),
        stores=lambda server, who, uploads: uploads,
    )
    assert kept_by(run(toy, rounds=1)[0]) == torch.arange(10.0).view(5, 2).tolist()
    assert torch.equal(stored, torch.arange(10.0).view(5, 2))


def test_forwarded_rows_reach_their_receivers() -> None:
    """Bytes of forwarded rows are those of the rows, not of the store."""
    chosen = torch.tensor([[1, 2], [0, 4], [3, 3], [2, 0], [4, 1]])
    got: dict[int, list[float]] = {}

    def work(task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        got[int(client["place"])] = down["cores"][:, 0].tolist()
        return client, {}

    toy = Toy(
        work,
        server={"cores": torch.arange(5.0)[:, None].expand(5, 3)},
        sends=lambda server, who, round: Download(
            {"note": torch.zeros(2)}, {"cores": Pick(server["cores"], chosen[who])}
        ),
    )
    report = run(toy, rounds=1, participation=0.6)[0]
    assert got == {i: chosen[i].tolist() for i in report.took_part}
    assert report.bytes_down == 3 * (2 * 4 + 2 * 3 * 4)


def test_evaluation_messages_are_counted_apart() -> None:
    toy = Toy(
        server={"params": torch.zeros(5, 2)},
        sends=lambda server, who, round: Download({"round": torch.tensor(round)}, {"params": server["params"][who]}),
        evaluates="server",
    )
    report = run(toy, rounds=1, participation=0.4)[0]
    assert report.bytes_down == 2 * (8 + 8) and report.bytes_eval == 5 * (8 + 8)


def test_validation_data_reach_the_turn_and_test_data_do_not() -> None:
    seen = {}

    def work(task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        seen[int(client["place"])] = turn.data
        return client, {}

    at = [silo("ash", 7), silo("elm", 9)]
    val = Split(at[0].train.x[:2], at[0].train.y[:2])
    run(Toy(work), at=[at[0]._replace(val=val), at[1]], rounds=1)
    assert seen[0].val is not None and torch.equal(seen[0].val.x, val.x) and seen[1].val is None
    assert seen[0]._fields == ("train", "val", "own") and seen[0].own is None


def test_workers_compute_with_one_thread_each() -> None:
    counts = []

    def work(task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        counts.append(torch.get_num_threads())
        return client, {}

    run(Toy(work, kinds={}), rounds=1, workers=2)
    assert counts == [1] * 5


def test_modules_are_not_shared_between_workers() -> None:
    """A module that counts its users at a time would see two."""
    busy: list[int] = []

    class Alone(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            assert id(self) not in busy
            busy.append(id(self))
            time.sleep(0.0005)
            out = super().forward(x)
            busy.remove(id(self))
            return out

    run("fedavg", on=Task(lambda: Alone(3, 3), (3,), 3, dtype=torch.float64), rounds=1, workers=3)
