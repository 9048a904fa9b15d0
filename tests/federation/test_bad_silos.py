"""Bad silos under `robust`: what is refused, that nobody else notices, and that honest silos are let alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from small import batchnorm, plan_of, same, silos, task
from torch import Tensor

from amity.config.robust import MEANS as WORDS
from amity.config.robust import Robust
from amity.config.run import Run
from amity.contract import Federation, State, averaged_keys
from amity.engines.local.stacked import Engine, carrier_of
from amity.engines.memory import Memory, wired
from amity.errors import InputError
from amity.federation import server as server_side
from amity.federation.encoding import decode, encode
from amity.federation.events import Event
from amity.federation.messages import Train, Upload
from amity.federation.participation import Lot, draw
from amity.federation.plan import Member
from amity.federation.reports import Round
from amity.federation.robust import FACTOR, combined, limit, print_of, too_long
from amity.federation.server import ServerSide
from amity.federation.stored_server import StoredServer
from amity.learn.robust_means import MEANS
from amity.methods import build
from amity.methods.table import BUILT_IN
from amity.resolve import resolve

LIAR, ROUND = 1, 2
Lie = Callable[[Upload, Upload], Upload]
"""(its upload of this round, that of the round before) -> what it sends."""


def with_params(change: Callable[[Tensor], Tensor]) -> Lie:
    return lambda answer, before: answer._replace(
        values={**answer.values, "params": change(answer.values["params"])},
    )


LIES: dict[str, tuple[Lie, str]] = {
    "not a number": (with_params(lambda value: value * torch.nan), "params not finite"),
    "wrong shape": (with_params(lambda value: value[:-1]), "params has the shape"),
    "wrong round": (lambda answer, before: before, "it answers another question"),
    "ten times too large": (with_params(lambda value: 10 * value), "times as far as the median silo's"),
    "repeated": (lambda answer, before: before._replace(round=answer.round), "it came before"),
}


def rounds_with(lie: Lie | None, method: str, robust: Robust = "norm", rounds: int = 4) -> tuple[list[Round], Any]:
    """The rounds of a run in which one silo lies in round 2, and what was told meanwhile."""
    plan, at = plan_of(method, at=silos(8), rounds=rounds)
    events: list[Event] = []
    with Memory(plan._replace(robust=robust), at) as carrier:
        honest, sent = wired(carrier.silos[LIAR]), dict[int, Upload]()

        def lying(content: bytes) -> bytes:
            message, received = decode(content), honest(content)
            answer = decode(received)
            if not isinstance(message, Train) or not isinstance(answer, Upload):
                return received
            sent[message.round] = answer
            return encode(lie(answer, sent[1])) if lie and message.round == ROUND else received

        carrier._wires[LIAR] = lying
        reports = list(ServerSide(carrier.plan, carrier, events=events.append).rounds())
        states = [dict(carrier.silos[client].state) for client in at]
    return reports, (states, events)


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """In round 2 the upload of the silo is lost on its way."""

    def without(rule: Any, fed: Federation, round: int, left: frozenset[int]) -> Lot:
        lot = draw(rule, fed, round, left)
        return lot._replace(lost=frozenset([LIAR]), dropped={LIAR: "lost"}) if round == ROUND else lot

    monkeypatch.setattr(server_side, "draw", without)


@pytest.mark.parametrize("method", ["fedavg-local", "fedamp", "accord"])
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_and_the_others_are_as_if_that_silo_had_been_dropped(
    lie: str, method: str, request: pytest.FixtureRequest
) -> None:
    make, why = LIES[lie]
    reports, (states, events) = rounds_with(make, method)
    line = reports[ROUND - 1]
    assert why in line.dropped[LIAR] and LIAR not in line.took_part and len(line.took_part) == 7
    assert line.progress.settled[LIAR].verdict == "refused"
    assert [event.round for event in events if event.what == "refused"] == [ROUND]
    assert all(len(report.took_part) == 8 for report in reports if report.round != ROUND)

    request.getfixturevalue("dropped")
    wanted, (others, _) = rounds_with(None, method)
    assert wanted[ROUND - 1].dropped == {LIAR: "lost"}
    for one, other in zip(reports, wanted, strict=True):
        assert same(one.progress.server, other.progress.server), f"round {one.round}"
    assert all(same(states[client], others[client]) for client in range(8) if client != LIAR)


@pytest.mark.parametrize("method", ["fedavg", "fedamp", "accord"])
def test_a_variance_below_zero_leaves_nobody_without_a_model(method: str) -> None:
    """Also where nothing else is asked for: the root of such a variance is no number, and a mean hands it on."""
    plan, at = plan_of(method, on=task(batchnorm), at=silos(4), rounds=2)
    with Memory(plan, at) as carrier:
        honest = wired(carrier.silos[LIAR])

        def lying(content: bytes) -> bytes:
            answer = decode(received := honest(content))
            if not isinstance(answer, Upload):
                return received
            return encode(answer._replace(values={**answer.values, "buffers": answer.values["buffers"] - 90}))

        carrier._wires[LIAR] = lying
        reports = list(ServerSide(carrier.plan, carrier).rounds())
    assert all("a variance below zero" in report.dropped[LIAR] for report in reports)
    assert reports[-1].scores and not any(score.failed for score in reports[-1].scores)


@pytest.mark.parametrize("lie", ["ten times too large", "repeated"])
def test_without_protection_both_are_taken(lie: str) -> None:
    reports, _ = rounds_with(LIES[lie][0], "fedavg", "off")
    assert not any(report.dropped for report in reports)


def test_an_upload_of_long_ago_is_recognised_by_a_server_that_was_restarted(tmp_path: Any) -> None:
    reports, _ = rounds_with(None, "fedamp")
    prints = reports[-1].progress.settled[LIAR].prints
    assert len(set(prints)) == 4
    stored = StoredServer(tmp_path, "run")
    stored.save(reports[-1], 8)
    found = stored.load()
    assert found is not None and found.report.progress.settled == reports[-1].progress.settled
    off, _ = rounds_with(None, "fedamp", "off")
    assert off[-1].progress.settled[LIAR].prints == ()


def run_of(method: str, robust: Robust, engine: Engine = "loop", model: Any = None) -> list[Round]:
    plan, at = plan_of(method, at=silos(8), on=None if model is None else task(model), rounds=2)
    plan = plan._replace(robust=robust)
    with carrier_of(engine, plan, at, 1, None) as carrier:
        return list(ServerSide(plan, carrier).rounds())


@pytest.mark.parametrize("method", [name for name in BUILT_IN if name != "pooled"])
def test_honest_silos_are_let_alone(method: str) -> None:
    assert not any(report.dropped for report in run_of(method, "norm", model=batchnorm))


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_where_nothing_is_refused_nothing_changes(engine: Engine) -> None:
    for method in ("fedavg", "fedamp", "apple"):
        plain, guarded = (run_of(method, robust, engine) for robust in ("off", "norm"))
        assert not any(report.dropped for report in guarded)
        assert same(plain[-1].progress.server, guarded[-1].progress.server)


@pytest.mark.parametrize("robust", WORDS)
@pytest.mark.parametrize("method", ["fedavg-local", "ditto", "scaffold", "mr-mtl"])
def test_every_engine_averages_alike(method: str, robust: Robust) -> None:
    """The local engine keeps uploads where they are: what silos hold must not become the mean."""
    plan, at = plan_of(method, at=silos(8), rounds=2)
    states = []
    for carrier in (Memory(plan, at), carrier_of("loop", plan, at, 1, None)):
        with carrier as opened:
            reports = list(ServerSide(plan._replace(robust=robust), opened).rounds())
            assert opened.door is not None
            states.append((reports[-1].progress.server, *opened.door.states()))
    assert all(same(one, other) for one, other in zip(*states, strict=True))
    assert not same(states[0][0], run_of(method, "off")[-1].progress.server)


AVERAGING = [name for name in BUILT_IN if averaged_keys(build(name))]


@pytest.mark.parametrize("method", AVERAGING)
def test_methods_that_say_so_use_uploads_in_their_mean_alone(method: str) -> None:
    """Equal sizes: shown the mean in every row, the server makes the same state of it."""
    settings = {"limit": "none"} if method == "accord" else {}
    one = build(method, settings)
    plan, at = plan_of(one, at=silos(5), rounds=1)
    fed = plan.fed._replace(sizes=torch.full((5,), 9))
    first = one.init_server(plan.task, fed)
    who = torch.arange(5)
    down = one.download(first, who, 1, lambda role, key: torch.Generator().manual_seed(key))
    kinds = one.upload_kinds(plan.task, fed, down)  # type: ignore[attr-defined]
    uploads: State = {
        key: torch.randn(5, *kind.shape, dtype=kind.dtype, generator=torch.Generator().manual_seed(len(key))).abs()
        if kind.dtype.is_floating_point
        else torch.ones(5, *kind.shape, dtype=kind.dtype)
        for key, kind in kinds.items()
    }
    means = {key: uploads[key].mean(0).expand_as(uploads[key]) for key in averaged_keys(one) if key in uploads}
    plain, shown = (one.aggregate(first, who, given, 1) for given in (uploads, {**uploads, **means}))
    assert means.keys() and plain.keys() == shown.keys()
    for key in plain:
        assert torch.allclose(plain[key].double(), shown[key].double(), atol=1e-12), key


def test_averages_are_what_their_rules_say() -> None:
    rows = torch.tensor([[1.0], [2.0], [3.0], [4.0], [90.0]])
    uploads = {"params": rows, "buffers": rows + 1, "counts": torch.arange(5)}
    found = combined(uploads, ("params", "buffers"), "krum")  # buffers of the silos that were chosen
    assert found["params"].tolist() == [[2.5]] * 5 and found["buffers"].tolist() == [[3.5]] * 5
    assert torch.equal(found["counts"], uploads["counts"]) and rows[4] == 90
    assert found["params"].untyped_storage().nbytes() == 4  # one row, shown five times
    for word in WORDS:
        assert torch.equal(combined(uploads, ("params",), word)["params"][0], MEANS[word](rows))
        assert torch.equal(combined(uploads, ("params",), word)["buffers"], uploads["buffers"])


def test_the_rule_by_hand() -> None:
    near = {client: 1.0 for client in range(4)}
    assert too_long({**near, 9: FACTOR}) == {} and too_long({**near, 9: FACTOR + 0.1}).keys() == {9}
    wide = {0: 1.0, 1: 4.0, 2: 16.0, 3: 64.0, 4: 1024.0}  # c = 16, s = 4: up to 256 times as far
    assert too_long(wide) == {} and limit(list(wide.values())) == pytest.approx(16 * 256)
    assert too_long({0: 1.0, 1: 1.0, 2: 1e9}) == {}  # three cannot tell who is wrong
    assert too_long({**near, 9: float("inf")}).keys() == {9}


def test_prints_tell_uploads_apart() -> None:
    one = {"params": torch.tensor([1.0, 2.0]), "buffers": torch.zeros(0)}
    assert print_of(one) == print_of({key: value.clone() for key, value in one.items()})
    assert print_of(one) != print_of({**one, "params": torch.tensor([1.0, 2.0000002])})


def test_a_method_without_a_mean_says_what_to_take_instead() -> None:
    roster = [Member(name, 20, (3,), 3) for name in "abcde"]
    with pytest.raises(InputError, match=r"robust krum needs .* averages models, got fedamp: take norm") as caught:
        resolve(Run("fedamp", model="mlr", robust="krum"), roster)
    assert "\n" not in str(caught.value)
    for method in ("fedavg-ft", "accord", "separate"):
        assert resolve(Run(method, model="mlr", robust="krum"), roster).plan.robust == "krum"
