"""A silo's worker as a real process: the simulator's model, whatever is killed when, and nothing without approval."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from signed_contracts import certified
from sites import PROGRAM, ROOT, Workers, approved, contract_of, make_site, npz_site, signed
from torch import nn

import amity
from amity.data import Silos
from amity.engines.memory import Memory
from amity.errors import LostWorker
from amity.federation import audit
from amity.federation.encoding import decode, encode
from amity.federation.membership import with_member
from amity.federation.messages import (
    Declined,
    Describe,
    Described,
    Done,
    Failed,
    Finish,
    Hello,
    Keep,
    Left,
    Propose,
    Standing,
    Train,
    Upload,
)
from amity.federation.plan import Member
from amity.federation.proposal import proposal
from amity.federation.reports import Round
from amity.federation.run_contract import DataForm, RunContract
from amity.federation.server import ServerSide
from amity.federation.signed import sign, to_json
from amity.prepare import ready, silos_of
from amity.resolve import method_of, resolve
from amity.site import agreement
from amity.site.agreement import Agreed
from amity.site.answering import Worker
from amity.site.config import load_site
from amity.site.ending import ask_to_leave
from amity.site.predict import predict

DIGITS = DataForm((1, 8, 8), tuple("0123456789"))


def asked(method: str, **how: object) -> amity.Run:
    return amity.Run(method, **{"rounds": 3, "epochs": 1, "per_silo": 40, "seed": 2, **how})  # type: ignore[arg-type]


def federation(tmp_path: Path, run: amity.Run, clients: int = 3) -> tuple[Silos, list[Path], RunContract]:
    """Silos of digits, their folders, and a contract that all have approved."""
    silos = silos_of(amity.Run(data="digits", clients=clients, seed=2))
    contract = contract_of(run, DIGITS, [silo.name for silo in silos.silos])
    return silos, [approved(npz_site(tmp_path, silo), contract) for silo in silos.silos], contract


def check_model(run: amity.Run, silos: Silos, folder: Path) -> None:
    wanted = amity.run(replace(run, engine="loop"), silos).model(folder.name).state_dict()
    found = load_file(folder / "state" / "runs" / "trial" / "model.safetensors")
    assert wanted.keys() == found.keys()
    assert all(torch.equal(wanted[key], found[key]) for key in wanted), folder.name


@pytest.mark.parametrize(
    ("method", "how"),
    [
        ("scaffold", {"participation": 0.7}),
        pytest.param("fedavg-ft", {}, marks=pytest.mark.slow),
        pytest.param("heurfedamp", {}, marks=pytest.mark.slow),  # as in test_site_results.py
    ],
)
def test_a_worker_has_the_simulators_model(method: str, how: dict[str, object], tmp_path: Path) -> None:
    run = asked(method, **how)
    silos, folders, contract = federation(tmp_path, run)
    with Workers(folders, words=PROGRAM) as children:
        plan, carrier = children.agree(contract)
        server = ServerSide(plan, carrier)
        server.meet()
        list(server.rounds())
        server.keep()
    for folder in folders:
        check_model(run, silos, folder)


def test_a_worker_that_is_killed_answers_from_its_store_without_being_told_the_plan_again(tmp_path: Path) -> None:
    run = asked("scaffold", rounds=4)
    silos, folders, contract = federation(tmp_path, run, clients=2)
    saved: list[Round] = []
    with Workers(folders) as children:
        plan, carrier = children.agree(contract)
        rounds = ServerSide(plan, carrier, save=saved.append).rounds()
        next(rounds)
        os.kill(children.children[1].pid, signal.SIGKILL)
        with pytest.raises(LostWorker):
            next(rounds)
        children.kill(1)
        children.start(1)
        server = ServerSide(plan, carrier, start=saved[-1].progress, save=saved.append)
        server.meet()
        list(server.rounds())
        server.keep()
    for folder in folders:
        check_model(run, silos, folder)


FACTORY = """
import numpy as np, pathlib
def build():
    pathlib.Path(__file__).with_name("opened").touch()
    x = np.linspace(-1, 1, 80, dtype=np.float32).reshape(40, 2)
    y = np.array([0, 1] * 20)
    return x[:30], y[:30], x[30:], y[30:]
"""
TWO = DataForm((2,), ("ill", "well"))


def recorded_site(tmp_path: Path, lines: str = "", name: str = "north") -> Path:
    """A silo whose factory leaves a file when it is called."""
    folder = make_site(tmp_path / name, f'factory = "recorded_{name}:build"\n{lines}')
    (folder / f"recorded_{name}.py").write_text(FACTORY)
    return folder


def test_data_are_not_opened_before_the_contract_is_approved(tmp_path: Path) -> None:
    folder = recorded_site(tmp_path)
    contract = contract_of(asked("fedavg"), TWO, ["north", "south"])
    document = signed(contract)
    message = Describe("trial", 0, 0, document)
    with Workers([folder]) as children:
        for question in (message, Propose("trial", 0, 0, proposal(document, []))):
            answer = children.ask(0, question)
            assert isinstance(answer, Declined) and "nobody here has approved it" in answer.words
        assert not (folder / "opened").exists()
        assert (folder / "state" / "pending" / "trial.json").read_text() == document
        assert isinstance(children.ask(0, Hello("trial", 0, 0)), Failed)
        approved(folder, contract)
        assert isinstance(children.ask(0, message), Described)
        assert (folder / "opened").exists() and not (folder / "state" / "pending" / "trial.json").exists()
        other = contract_of(asked("fedavg", rounds=4), TWO, ["north", "south"])
        assert isinstance(children.ask(0, Describe("trial", 0, 0, signed(other))), Declined)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for silos whose workers are in this process; modules beside their silo.toml are forgotten."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [name for name in sys.modules if name.startswith("recorded_")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def ask(worker: Worker, message: object) -> object:
    return decode(worker.exchange(encode(message)))  # type: ignore[arg-type]


def test_a_standing_policy_decides_and_its_limits_hold(here: Path) -> None:
    folder = recorded_site(here, '[policy]\nmethods = ["fedavg"]\nmost_rounds = 5\napprove = "standing"\n')
    worker = Worker(load_site(folder))
    long, short = (contract_of(asked("fedavg", rounds=rounds), TWO, ["north"]) for rounds in (9, 3))
    approved(folder, long)
    refused = ask(worker, Describe("trial", 0, 0, signed(long)))
    assert isinstance(refused, Declined) and "most_rounds is 5" in refused.words
    assert not (folder / "opened").exists()
    assert isinstance(ask(worker, Describe("trial", 0, 0, signed(short))), Described)
    worker.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"consortium": "another"}, "consortium"),
        ({"name": "other"}, "brings the contract of 'other'"),
        ({"invited": ("south",)}, "does not invite silo north"),
        ({"amity": "0.0.1"}, "was made with 0.0.1"),
    ],
    ids=["consortium", "run", "invited", "version"],
)
def test_a_contract_that_does_not_hold_is_refused_before_anything_is_opened(
    change: dict[str, object], said: str, here: Path
) -> None:
    folder = recorded_site(here, '[policy]\napprove = "standing"\n')
    contract = replace(contract_of(asked("fedavg"), TWO, ["north"]), **change)  # type: ignore[arg-type]
    worker = Worker(load_site(folder))
    answer = ask(worker, Describe("trial", 0, 0, signed(contract)))
    assert isinstance(answer, Failed) and said in answer.words and not (folder / "opened").exists()
    assert [line.what for line in audit.entries(folder / "state" / "audit.jsonl")] == [
        "received Describe",
        "refused",
        "sent Failed",
    ]
    worker.close()


def test_a_contract_of_another_root_is_refused(here: Path) -> None:
    folder = recorded_site(here, '[policy]\napprove = "standing"\n')
    (folder / "kit" / "startup" / "rootCA.pem").unlink()
    document = signed(contract_of(asked("fedavg"), TWO, ["north"]))
    worker = Worker(load_site(folder))
    missing = ask(worker, Describe("trial", 0, 0, document))
    assert isinstance(missing, Failed) and "no root certificate" in missing.words and str(here) not in missing.words
    worker.close()
    worker = Worker(load_site(folder), root=lambda site: ROOT.pem.replace(b"A", b"B"))
    assert isinstance(ask(worker, Describe("trial", 0, 0, document)), Failed)
    worker.close()


def test_every_message_and_answer_is_in_the_audit(here: Path) -> None:
    folder = recorded_site(here, '[policy]\napprove = "standing"\n')
    worker = Worker(load_site(folder))
    sent = encode(Describe("trial", 0, 0, signed(contract_of(asked("fedavg"), TWO, ["north"]))))
    got = worker.exchange(sent)
    garbage = worker.exchange(b"\x00" * 40)
    worker.close()
    lines = audit.entries(folder / "state" / "audit.jsonl")
    assert audit.verify(folder / "state" / "audit.jsonl") == []
    assert [line.what for line in lines] == [
        "received Describe",
        "approved",
        "sent Described",
        "received what is no message",
        "sent Failed",
    ]
    wanted = [sent, None, got, b"\x00" * 40, garbage]
    for line, content in zip(lines, wanted, strict=True):
        if content is not None:
            assert (line.bytes, line.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_a_label_that_is_not_in_the_contract_is_one_line_that_does_not_name_it(here: Path) -> None:
    folder = make_site(here / "north", 'data = "own.csv"\nlabel = "finding"\n[policy]\napprove = "standing"')
    rows = [f"{i},{i + 1},{'Schmidt' if i < 3 else 'ill'}" for i in range(10)]
    (folder / "own.csv").write_text("\n".join(["a,b,finding", *rows]) + "\n")
    worker = Worker(load_site(folder))
    answer = ask(worker, Describe("trial", 0, 0, signed(contract_of(asked("fedavg"), TWO, ["north"]))))
    assert isinstance(answer, Failed) and answer.blame == "input"
    assert "3 of 10 examples" in answer.words and "column 'finding'" in answer.words and "Schmidt" not in answer.words
    worker.close()


def test_a_state_folder_is_held_by_one_worker(tmp_path: Path) -> None:
    folder = recorded_site(tmp_path)
    hello = Hello("trial", 0, 0)
    with Workers([folder]) as first:
        assert isinstance(first.ask(0, hello), Failed)  # now it has begun
        words = ["-c", "import amity.site.worker as it; it.PATIENCE = 0.5; it.main()"]
        with Workers([folder], words=words) as second:
            child = second.children[0]
            assert child.wait(timeout=60) == 2 and child.stderr is not None
            assert "another worker of silo north holds" in child.stderr.read().decode()
        assert isinstance(first.ask(0, hello), Failed)


@pytest.mark.parametrize("method", ["fedamp", pytest.param("fedavg", marks=pytest.mark.slow)])
def test_a_silo_that_leaves_keeps_the_model_of_its_last_round(method: str, tmp_path: Path) -> None:
    run = asked(method)
    silos, folders, contract = federation(tmp_path, run, clients=2)
    with Workers(folders) as children:
        plan, carrier = children.agree(contract)
        rounds = ServerSide(plan, carrier).rounds()
        next(rounds)
        next(rounds)
        ask_to_leave(load_site(folders[0]), "trial")
        next(rounds)
        hello = Hello("trial", 3, 0)
        assert children.ask(0, hello) == Left("trial", 2, 0)
        children.kill(0)
        children.start(0)
        assert children.ask(0, hello) == Left("trial", 2, 0)
        assert isinstance(children.ask(1, Hello("trial", 3, 1, 3, "accepted")), Standing)
        assert not (folders[1] / "state" / "runs" / "trial" / "model.json").exists()
        children.end(0)
    check_model(replace(run, rounds=2), silos, folders[0])
    assert (folders[0] / "state" / "runs" / "trial" / "verdict.json").exists()


def test_a_disk_that_is_full_is_said_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: first the state does not fit, then not even the audit."""
    run = asked("fedamp")
    silos, folders, contract = federation(tmp_path, run, clients=2)
    state = folders[0] / "state" / "runs" / "trial" / "state"
    with Workers(folders) as children:
        plan, carrier = children.agree(contract)
        saved: list[Round] = []
        rounds = ServerSide(plan, carrier, save=saved.append).rounds()
        next(rounds)
        before = {path: path.read_bytes() for path in (state / "current").iterdir()}
        accounts = [len(audit.entries(folders[0] / "state" / "audit.jsonl"))]
        for most in (18_000, 100):
            resource.prlimit(children.children[0].pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            with pytest.raises(amity.InputError, match="silo-00 cannot write to its state folder .*File too large"):
                list(ServerSide(plan, carrier, start=saved[-1].progress, save=saved.append).rounds())
            assert {path: path.read_bytes() for path in (state / "current").iterdir()} == before
            assert not (state / "new").exists()
            accounts.append(len(audit.entries(folders[0] / "state" / "audit.jsonl")))
        assert accounts == [accounts[0], accounts[0] + 2, accounts[0] + 2]  # the first failure is in the audit
        unaudited = children.ask(0, Hello("trial", 1, 0))
        assert isinstance(unaudited, Failed) and unaudited.blame == "room"  # which is waited for
        resource.prlimit(children.children[0].pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        server = ServerSide(plan, carrier, start=saved[-1].progress, save=saved.append)
        server.meet()
        list(server.rounds())
        server.keep()
    for folder in folders:
        check_model(run, silos, folder)
    assert audit.verify(folders[1] / "state" / "audit.jsonl") == []


def test_a_state_folder_that_cannot_be_written_is_a_clear_answer(tmp_path: Path) -> None:
    folder = recorded_site(tmp_path)
    text = (folder / "silo.toml").read_text()
    (folder / "silo.toml").write_text(text.replace('state = "state"', 'state = "silo.toml/state"'))
    with Workers([folder]) as children:
        answer = children.ask(0, Hello("trial", 0, 0))
        assert isinstance(answer, Failed) and "silo north cannot write to its state folder" in answer.words
        assert answer.blame == "room"
        assert str(tmp_path) not in answer.words


def test_a_run_that_was_begun_with_another_roster_is_not_begun_anew(tmp_path: Path) -> None:
    run = asked("fedamp", rounds=1)
    _, folders, contract = federation(tmp_path, run, clients=2)
    with Workers(folders) as children:
        plan, carrier = children.agree(contract)
        children.agree(contract)  # the same again is no news
        list(ServerSide(plan, carrier).rounds())
        roster = children.roster(contract)
        forged = [roster[0], roster[1]._replace(size=9999)]
        answer = children.ask(0, Propose("trial", 0, 0, proposal(signed(contract), forged)))
        assert isinstance(answer, Failed) and "with another contract or roster" in answer.words
        wrong = children.ask(0, Propose("trial", 0, 1, proposal(signed(contract), roster)))
        assert isinstance(wrong, Failed) and "line 1 of the roster is not what silo silo-00" in wrong.words
        early = children.ask(0, Finish("trial", 1, 0))
        assert isinstance(early, Failed) and "was not told to keep a model" in early.words


MODEL = """
from torch import nn
def build(): return nn.Sequential(nn.Flatten(), nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 2))
"""


def test_a_model_of_ones_own_is_the_code_that_the_silo_names(here: Path) -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 2))

    standing = '[policy]\napprove = "standing"\n'
    contract = contract_of(asked("fedavg", model="clinic.models:net"), TWO, ["north"], model=build)
    folder = recorded_site(here, f'model = "recorded_model:build"\n{standing}')
    (folder / "recorded_model.py").write_text(MODEL)
    without = recorded_site(here / "other", standing)
    answers = []
    for place in (folder, without):
        worker = Worker(load_site(place))
        described = ask(worker, Describe("trial", 0, 0, signed(contract)))
        assert isinstance(described, Described)
        document = f'{{"contract": {signed(contract)}, "roster": [{described.member}]}}'
        answers.append(ask(worker, Propose("trial", 0, 0, document)))
        if isinstance(answers[-1], Standing):
            assert isinstance(ask(worker, Keep("trial", 0, 0, plan_model(build))), Done)
        worker.close()
    assert isinstance(answers[0], Standing)
    assert isinstance(answers[1], Failed) and "names the model 'clinic.models:net'" in answers[1].words
    np.savez(here / "new.npz", x=np.zeros((3, 2)))
    assert len(predict(folder, "trial", here / "new.npz").values) == 3
    (folder / "silo.toml").write_text((folder / "silo.toml").read_text().replace('model = "recorded_model:build"', ""))
    with pytest.raises(amity.InputError, match="needs its code"):
        predict(folder, "trial", here / "new.npz")


def plan_model(build: Callable[[], nn.Module]) -> amity.Model:
    return amity.Task(build, (2,), 2).init(torch.Generator())


@pytest.mark.parametrize("document", ["{", "[]", '{"roster": []}', '{"contract": "", "roster": [{"name": "north"}]}'])
def test_a_proposal_that_is_none_is_one_line(document: str, here: Path) -> None:
    worker = Worker(load_site(recorded_site(here)))
    answer = ask(worker, Propose("trial", 0, 0, document))
    worker.close()
    assert isinstance(answer, Failed) and "what is proposed cannot be read" in answer.words


def test_a_silo_that_joins_later_is_planned_with_also_by_a_worker_that_is_started_again(tmp_path: Path) -> None:
    """The same in one process, where silos are hosted, gives the models that count."""
    run = asked("apple", rounds=4)
    silos, folders, contract = federation(tmp_path, run)
    with Workers(folders) as children:
        *roster, newcomer = children.roster(contract)
        plan = resolve(run, roster).plan._replace(run="trial")
        document = proposal(signed(contract), roster)
        for client in range(2):
            assert isinstance(children.ask(client, Propose("trial", 0, client, document)), Standing)
        wires = {client: partial(children.send, client) for client in range(3)}
        server = ServerSide(plan, Memory(plan, wires=wires))
        rounds = server.rounds()
        next(rounds)
        grown = proposal(signed(contract), roster, [newcomer])
        assert isinstance(children.ask(2, Propose("trial", 0, 2, grown)), Standing)
        assert server.join(newcomer) == 2
        next(rounds)
        children.kill(0)
        children.start(0)
        list(rounds)
        server.keep()
    ready_silos = ready(silos, run, *method_of(run)).silos
    hosted = Memory(plan, dict(enumerate(ready_silos[:2])))
    whole = ServerSide(plan, hosted)
    rounds = whole.rounds()
    next(rounds)
    hosted.host(plan._replace(fed=with_member(plan.fed, newcomer)), whole.join(newcomer), ready_silos[2])
    list(rounds)
    whole.keep()
    for client, folder in enumerate(folders):
        wanted = plan.task.export_state(hosted.silos[client].delivered())
        found = load_file(folder / "state" / "runs" / "trial" / "model.safetensors")
        assert all(torch.equal(found[key], wanted[key]) for key in wanted), folder.name


def test_a_newcomer_that_a_proposal_names_changes_nothing_about_a_turn_that_is_not_settled(here: Path) -> None:
    """The server was ended after it had saved the round, and comes back with one silo more."""
    run = asked("apple")
    silos, folders, contract = federation(here, run)
    workers = [Worker(load_site(folder)) for folder in folders]
    described = [ask(worker, Describe("trial", 0, 0, signed(contract))) for worker in workers]
    roster = [Member(**json.loads(one.member)) for one in described if isinstance(one, Described)]
    roster = [member._replace(shape=tuple(member.shape)) for member in roster]
    first, last = roster[:2], roster[2]
    assert isinstance(ask(workers[0], Propose("trial", 0, 0, proposal(signed(contract), first))), Standing)
    plan = resolve(run, first).plan
    down = plan.method.download(plan.method.init_server(plan.task, plan.fed), torch.tensor([0, 1]), 1, no_draws)
    assert isinstance(ask(workers[0], Train("trial", 1, 0, down.to(0))), Upload)
    for _ in range(2):  # a proposal may come again
        answer = ask(workers[0], Propose("trial", 0, 0, proposal(signed(contract), first, [last])))
        assert isinstance(answer, Standing) and (answer.round, answer.pending) == (0, 1)
    settled = ask(workers[0], Hello("trial", 1, 0, 1, "accepted"))
    assert isinstance(settled, Standing) and (settled.round, settled.pending) == (1, None)
    fewer = ask(workers[0], Propose("trial", 0, 0, proposal(signed(contract), first)))
    assert isinstance(fewer, Failed) and "with another contract or roster" in fewer.words
    for worker in workers:
        worker.close()
    state = load_file(folders[0] / "state" / "runs" / "trial" / "state" / "current" / "state.safetensors")
    assert state["relations"].shape == (3,)


def test_damage_is_told_without_the_silos_paths(here: Path) -> None:
    run = asked("fedavg")
    _, folders, contract = federation(here, run, clients=2)
    folder = folders[0] / "state" / "runs" / "trial"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("{}")
    worker = Worker(load_site(folders[0]))
    answer = ask(worker, Hello("trial", 0, 0))
    worker.close()
    assert isinstance(answer, Failed) and "STATE/runs/trial/plan.json is not as it was written" in answer.words
    assert str(here) not in answer.words


def no_draws(role: str, key: int) -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_an_answer_beyond_the_contract_is_not_given(here: Path) -> None:
    run = asked("fedavg")
    _, folders, contract = federation(here, run, clients=2)
    params = next(leaving for leaving in contract.leaves if leaving.name == "params")
    less = replace(contract, leaves=(params._replace(bytes=params.bytes - 4),))
    worker = Worker(load_site(approved(folders[0], less)))
    described = ask(worker, Describe("trial", 0, 0, signed(less)))
    assert isinstance(described, Described)
    member = Member(**{**json.loads(described.member), "shape": DIGITS.shape})
    roster = [member, member._replace(name="silo-01")]
    assert isinstance(ask(worker, Propose("trial", 0, 0, proposal(signed(less), roster))), Standing)
    plan = resolve(run, roster).plan
    down = plan.method.download(plan.method.init_server(plan.task, plan.fed), torch.tensor([0, 1]), 1, no_draws)
    answer = ask(worker, Train("trial", 1, 0, down.to(0)))
    assert isinstance(answer, Failed) and "nothing was sent" in answer.words
    worker.close()


def test_a_silo_with_more_threads_has_the_same_model(tmp_path: Path) -> None:
    """Sums that are short, as here, are taken by one thread whatever silo.toml says: nothing else may differ."""
    run = asked("scaffold", rounds=2, model="mlr")
    silos = silos_of(amity.Run(data="digits", clients=2, seed=2))
    contract = contract_of(run, DIGITS, [silo.name for silo in silos.silos])
    folders = [approved(npz_site(tmp_path, silo, "threads = 2"), contract) for silo in silos.silos]
    with Workers(folders) as children:
        plan, carrier = children.agree(contract)
        server = ServerSide(plan, carrier)
        server.meet()
        list(server.rounds())
        server.keep()
    for folder in folders:
        check_model(run, silos, folder)


def test_a_run_goes_on_when_the_certificate_of_who_signed_it_has_ended(tmp_path: Path) -> None:
    yesterday = datetime.now(UTC) - timedelta(hours=12)
    admin = certified("admin", ROOT, role="project_admin", begins=yesterday - timedelta(hours=1), ends=yesterday)
    silos, (folder,), contract = federation(tmp_path, asked("fedavg"), clients=1)
    long_ago = sign(contract, admin.key_pem, admin.pem, yesterday - timedelta(minutes=1))
    document, site = to_json(long_ago), load_site(folder)
    worker = Worker(site)
    with closing(worker):
        refused = decode(worker.exchange(encode(Describe("trial", 0, 0, document))))
        assert isinstance(refused, Failed) and "the signer's certificate is valid from" in refused.words
        agreement.save(site, Agreed(long_ago, 0, (Member(site.name, 40, DIGITS.shape, 10),)))
        assert isinstance(decode(worker.exchange(encode(Describe("trial", 0, 0, document)))), Described)
        another = to_json(sign(contract, admin.key_pem, admin.pem, yesterday - timedelta(minutes=2)))
        refused = decode(worker.exchange(encode(Describe("trial", 0, 0, another))))
        assert isinstance(refused, Failed), "an old key signs nothing new"
