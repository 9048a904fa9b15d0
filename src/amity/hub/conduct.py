"""Conducting a run between silos elsewhere: who takes part, its rounds, its record, and what is shown meanwhile.

    gather -> propose -> rounds (checkpoint, record, board) -> keep -> finish

Everything that must survive lies in HUB/runs/<run>/: this process may be killed at any moment, and the next one goes on
from there. A run comes to one of four ends: all that was agreed (`ended`), less than that (`incomplete`), a failure, or
a stop. Below its quorum no run ends well.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from amity.config.run import Run
from amity.contract import Federation
from amity.errors import AmityError, InputError, LostWorker
from amity.federation.distant import Distant, Manners
from amity.federation.events import Event, Stream
from amity.federation.membership import grow_server, with_member
from amity.federation.messages import Propose
from amity.federation.plan import Plan, layout_of
from amity.federation.proposal import proposal
from amity.federation.reports import Progress, Round
from amity.federation.run_contract import RunContract
from amity.federation.server import ServerSide
from amity.federation.signed import any_from_json
from amity.federation.stored_server import Found, Roster, StoredServer
from amity.free_memory import give_large_blocks_back
from amity.hub import requests
from amity.hub.accounts import Audited
from amity.hub.agreeing import agree_on_schema
from amity.hub.board import Board, new_status, read_status
from amity.hub.gathering import gather
from amity.hub.presence import twice
from amity.hub.recording import Journal
from amity.hub.room import no_room, wait_for_room
from amity.hub.run_file import model_of
from amity.hub.runs import run_of
from amity.hub.watching import Network, Watcher
from amity.resolve import resolve

CONTRACT = "contract.json"

BESIDE = 8 << 20
"""Bytes of an answer beside its numbers at most: names, shapes, words."""

_log = logging.getLogger("amity.hub")


def conduct(hub: Path, name: str, network: Network) -> None:
    """Run what is left of a run. The board says how it came out; only a run that may go on later raises."""
    torch.set_num_threads(1)  # as in a simulation: sums are taken in one order
    give_large_blocks_back()
    folder = run_of(hub, name).folder  # a job names a run of this hub, and no other place
    document = (folder / CONTRACT).read_text(encoding="utf-8")
    contract = any_from_json(document).contract
    status = read_status(folder) or new_status(
        name, contract.invited, contract.rounds, contract.policy, contract.quorum
    )
    status["jobs"] += 1
    accounts = Audited(network, hub)
    with Board(folder, status) as board, Watcher(board, network, contract.invited, partial(twice, hub)) as watcher:
        try:
            if isinstance(contract, RunContract):
                _Conducted(folder, contract, document, accounts, board, watcher).go()
            else:
                agree_on_schema(folder, contract, document, accounts, board)
        except requests.Stop:
            board.phase("stopped", "it was stopped at the server")
            requests.clear(folder, "stop")  # now: whoever comes after a crash must know of it, too
        except requests.Regroup:
            board.phase("regrouping", "a silo is back, or is new: the next round has it")
        except LostWorker as error:
            board.phase("waiting", str(error))
            raise
        except Exception as error:
            if no_room(error):
                _wait_for_room(folder, contract.limits.absence, board, error)
            if isinstance(error, AmityError):
                _log.error("run %s: %s", name, error)
                board.phase("failed", str(error))
            else:
                _log.exception("run %s", name)
                board.phase("failed", f"{type(error).__name__}, the server's log says more")
        finally:
            accounts.came_out(name, board.status["phase"], board.status["words"])


def longest_answer(hub: Path, name: str) -> int:
    """Return the bytes that an answer to this run may have: more than its contract announces is no answer."""
    contract = any_from_json((run_of(hub, name).folder / CONTRACT).read_text(encoding="utf-8")).contract
    announced = sum(one.bytes for one in contract.leaves) if isinstance(contract, RunContract) else 0
    return 2 * announced + BESIDE


def _wait_for_room(folder: Path, most: float, board: Board, error: Exception) -> None:
    """Wait until the server's disk has room, and let the run go on then, in a job of its own: raises LostWorker."""
    words = f"the server has no room on its disk ({error}): make some, and the run goes on by itself"
    _log.error("run %s: %s", folder.name, words)
    board.phase("waiting", words)

    def pause(seconds: float) -> None:
        requests.check(folder)
        time.sleep(seconds)

    waited = wait_for_room(folder, most, pause)
    raise LostWorker(f"the server had no room on its disk for {waited:.0f} s") from error


class _Conducted:
    """One run under way."""

    def __init__(
        self, folder: Path, contract: RunContract, document: str, network: Audited, board: Board, watcher: Watcher
    ) -> None:
        self._folder = folder
        self._contract = contract
        self._document = document
        self._network = network
        self._board = board
        self._watcher = watcher
        self._stored = StoredServer(folder / "server", contract.name)

    def go(self) -> None:
        """Gather silos and run the rounds that are left."""
        contract, check = self._contract, lambda: requests.check(self._folder)
        roster = gather(contract, self._document, self._stored.roster(), self._network, self._board, check)
        run, plan = planned(contract, roster)
        self._stored.save_roster(roster)
        found = self._stored.load()
        with Journal(self._folder, contract, run, 0 if found is None else found.report.round) as journal:
            self._board.recount((line["round"], line["took_part"]) for line in journal.lines)
            self._run(roster, run, plan, found, journal)

    def _run(self, roster: Roster, run: Run, plan: Plan, found: Found | None, journal: Journal) -> None:
        contract, names = self._contract, [member.name for member in roster.members]
        events = Stream(journal.listen, self._note)
        carrier = self._carrier(roster, names, events)
        server = ServerSide(
            plan,
            carrier,
            start=grown(plan, found, roster),
            names=names,
            events=events,
            evaluate_every=run.evaluate_every,
            save=lambda report: self._stored.save(report, plan.fed.clients),
            least=contract.quorum if contract.policy == "quorum" else 0,
        )
        if found is not None:
            words = f"the run goes on after round {found.report.round}, in job {self._board.status['jobs']}"
            events(Event("note", found.report.round, words=words))
        if found is not None and found.note:
            events(Event("note", found.report.round, words=found.note))
        self._board.phase("running")
        server.meet()
        if found is not None and found.report.round > len(journal.lines):
            self._recorded(server.catch_up(found.report), server, journal, names, events)
        elif found is not None and journal.chosen_now:
            server.keep(who=range(found.clients))  # once more: not all may have heard it before this process began
        try:
            for report in server.rounds():
                self._recorded(report, server, journal, names, events)
                if report.round < run.all_rounds:
                    requests.check(self._folder)
        except requests.Stop:
            carrier.hurry()
            if server.progress.round:
                if journal.chosen:
                    server.keep_first()
                else:
                    server.keep()
                server.end()
            raise
        self._end(server, journal, events)

    def _carrier(self, roster: Roster, names: list[str], events: Stream) -> Distant:
        contract = self._contract
        text = proposal(self._document, roster.founders, roster.joined)
        return Distant(
            names,
            self._network,
            Manners(contract.policy, contract.limits.turn, contract.limits.absence, contract.wire),
            introduce=lambda client: Propose(contract.name, 0, client, text),
            events=events,
            notice=self._watcher.notice,
            pause=self._pause,
        )

    def _note(self, event: Event) -> None:
        """Put on the board, and into the audit, which silo cannot go on with the others, and why."""
        if event.what == "aside" and event.silo is not None:
            self._board.silo(event.silo, "absent", event.words)
            self._network.set_aside(self._contract.name, event.round, event.silo, event.words)

    def _pause(self, seconds: float) -> None:
        """Wait for a silo, unless somebody does not want to: what is asked of a run does not wait for one."""
        requests.check(self._folder)
        time.sleep(seconds)

    def _recorded(self, report: Round, server: ServerSide, journal: Journal, names: list[str], events: Stream) -> None:
        """Put a round on record; silos keep their models of it where validation data say so."""
        line = journal.add(report, names, events)
        self._board.took_part(report.round, line["took_part"])
        if journal.chosen_now:
            server.keep()

    def _end(self, server: ServerSide, journal: Journal, events: Stream) -> None:
        """Let every silo keep its model, and say how the run came out."""
        server.meet_again()  # who was away in the last round need not be away from the end
        if journal.chosen:
            server.keep_first()
        else:
            server.keep()
        for name in server.end():
            self._board.silo(name, "finished")
        short = shortfall(self._contract, self._board)
        events(Event("ended", server.progress.round, words=short))
        journal.finish()
        self._board.phase("incomplete" if short else "ended", short)


def planned(contract: RunContract, roster: Roster) -> tuple[Run, Plan]:
    """The run without any `auto`, and the plan that silos come to as well."""
    run, plan = resolve(contract.options, roster.founders, model=model_of(contract.options))
    plan = plan._replace(run=contract.name)
    if layout_of(plan) != contract.layout:
        raise InputError("the silos' data lead to another model than the contract says: look at [data] in the run file")
    for member in roster.joined:
        plan = plan._replace(fed=with_member(plan.fed, member))
    return replace(run, clients=len(contract.invited)), plan


def grown(plan: Plan, found: Found | None, roster: Roster) -> Progress | None:
    """What was saved, for a federation that may have grown since; None where everything is yet to begin.

    Silos grow by the same steps from the founders on, also where no round was saved before newcomers came.
    """
    if found is not None:
        progress, known = found.report.progress, found.clients
    elif roster.joined:
        known = len(roster.founders)
        progress = Progress(0, plan.method.init_server(plan.task, _first(plan.fed, known)))
    else:
        return None
    for count in range(known, len(roster.members)):
        before, after = (_first(plan.fed, number) for number in (count, count + 1))
        progress = progress._replace(server=grow_server(plan.method, plan.task, before, after, progress.server))
    return progress


def _first(fed: Federation, count: int) -> Federation:
    """The federation of the first so many silos."""
    groups = None if fed.groups is None else fed.groups[:count]
    return fed._replace(sizes=fed.sizes[:count], keys=fed.keys[:count], groups=groups)


def shortfall(contract: RunContract, board: Board) -> str:
    """What is missing to what was agreed; nothing where all is there."""
    silos = board.status["silos"]
    few = [
        f"{name} took part in {silos[name]['rounds']} of the {contract.least_rounds} rounds that were agreed"
        for name in contract.invited
        if silos[name]["rounds"] < contract.least_rounds
    ]
    told = ("finished", "left", "declined", "invited")  # to the others nobody has said that the run is over
    away = [
        f"{name} has not got the end of the run" + (f" ({silos[name]['words']})" if silos[name]["words"] else "")
        for name in contract.invited
        if silos[name]["step"] not in told
    ]
    left = [f"{name} has left" for name in contract.invited if silos[name]["step"] == "left"]
    return "; ".join([*few, *away, *left])
