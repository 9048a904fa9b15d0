"""Runs of a consortium, at the coordinator: submit, status, stop, logs, results."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amity.cli.federation.extra import require_extra
from amity.cli.flags import with_log_options
from amity.cli.progress import begin
from amity.errors import InputError
from amity.logs import visible

if TYPE_CHECKING:
    from amity.federation.events import Event
    from amity.hub.board import Status
    from amity.hub.runs import HubRun

Hub = Annotated[Path, typer.Option("--hub", metavar="HUB", help="the coordinator's folder")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="the run's name")]

OLD = 60.0
"""Seconds after which a board that nobody writes is said to be old."""


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("submit")(with_log_options(submit_command))
    app.command("status")(with_log_options(status_command))
    app.command("stop")(with_log_options(stop_command))
    app.command("logs")(with_log_options(logs_command))
    app.command("results")(with_log_options(results_command))


def submit_command(
    file: Annotated[Path, typer.Argument(metavar="RUN.toml", help="the run: who is invited to what")],
    hub: Hub,
    detach: Annotated[bool, typer.Option("--detach", help="do not wait for the end")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask before it is signed")] = False,
) -> None:
    """Sign the contract of a run and put it to the silos; show how it goes. Ctrl-C leaves it running."""
    require_extra()
    begin("making the contract")
    from amity.engines.flare.kits import members, signing_key
    from amity.federation.contract_words import in_words
    from amity.federation.signed import sign
    from amity.hub.run_file import contract_of_file
    from amity.hub.runs import add_run

    there = [member.name for member in members(hub) if not member.removed]
    contract = contract_of_file(file, consortium_of(hub), there)
    if not yes:
        print(in_words(contract))
        if not typer.confirm("Sign this and put it to the silos?"):
            raise typer.Exit(1)
    run = add_run(hub, sign(contract, *signing_key(hub), datetime.now(UTC)))
    print(f"run {run.name} is in {run.folder}: each silo that is invited has to approve it")
    if not detach:
        follow(hub, run)


def status_command(
    hub: Hub,
    name: Annotated[
        str | None, typer.Argument(metavar="RUN", help="the run's name [default: all runs]", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="all that is known, for programs")] = False,
) -> None:
    """Show how runs stand, and each silo by itself: approved, connected, training, absent since when and why."""
    from amity.hub.presence import TWICE, twice
    from amity.hub.runs import run_of, runs_of

    runs = runs_of(hub) if name is None else [run_of(hub, name)]
    if as_json:
        print(json.dumps([run.status for run in runs], indent=1))
        return
    if not runs:
        consortium_of(hub)  # refuses a folder that is no hub
        print(f"{hub} has no run yet: amity federation submit RUN.toml --hub {hub}")
    for run in runs:
        print("\n".join(map(visible, lines_of(run.status))))
    for silo, since in twice(hub).items():
        print(f"silo {silo} runs twice since {_clock(since)}: {TWICE}")


def stop_command(name: RunName, hub: Hub) -> None:
    """Stop a run for good, after the round that is under way. Silos keep the personal models of that round."""
    from amity.hub import requests
    from amity.hub.board import OVER
    from amity.hub.runs import run_of

    run = run_of(hub, name)
    if run.status["phase"] in OVER:
        raise InputError(f"run {name} is over ({run.status['phase']}), there is nothing to stop: see its results")
    requests.ask(run.folder, "stop")
    print(f"run {name} stops after this round; `amity federation status {name} --hub {hub}` says when")


def logs_command(
    name: RunName,
    hub: Hub,
    lines: Annotated[int, typer.Option("--lines", metavar="N", help="as many of the last", min=1)] = 40,
) -> None:
    """Show what happened in a run, one line for each event. A silo's own log never leaves the silo."""
    from amity.hub.runs import run_of

    run = run_of(hub, name)
    file = run.folder / "record" / "events.jsonl"
    if not file.exists():
        print(
            visible(f"run {name} has no events yet: {run.status['phase']}, {run.status['words'] or 'nothing to say'}")
        )
        return
    from amity.record.events import read_events

    for event in read_events(file, whole=False)[-lines:]:
        print(_event_line(event))


def results_command(name: RunName, hub: Hub) -> None:
    """Show the results of a run: its table, how it came out, and where its report is."""
    begin("reading the record")
    from amity.hub.runs import run_of

    run = run_of(hub, name)
    if not (run.folder / "record" / "summary.json").exists():
        raise InputError(_without_results(run))
    _show_results(run)


def lines_of(status: Status, now: float | None = None) -> list[str]:
    """A run's board in words."""
    now = time.time() if now is None else now
    head = f"run {status['run']}: {status['phase']}"
    if status["rounds"]:  # an agreement on a schema has none
        head += f", round {status['round']} of {status['rounds']}"
    lines = [head + (f" ({status['words']})" if status["words"] else "")]
    age = now - status["written"]
    if age > OLD and status["phase"] not in ("ended", "incomplete", "failed", "stopped"):
        lines.append(f"  nobody has written this for {_span(age)}: is `amity federation server` running?")
    for name, silo in status["silos"].items():
        part = f"  {name}: {silo['step']} since {_clock(silo['since'])}"
        part += f", took part in {silo['rounds']} rounds" if status["rounds"] else ""
        if silo["seen"] is not None and silo["step"] not in ("finished", "left"):
            part += f", last sign of life {_span(now - silo['seen'])} ago"
        if silo["twice"] is not None:
            part += ", its kit runs twice"
        if silo["skew"] is not None and abs(silo["skew"]) > 5:
            part += f", its clock is off by {silo['skew']:+.0f} s"
        lines.append(part + (f": {silo['words']}" if silo["words"] else ""))
    return lines


def follow(hub: Path, run: HubRun) -> None:
    """Show a run's board whenever it changes, until the run is over."""
    from amity.hub.board import OVER

    shown: list[str] = []
    try:
        while True:
            status = run.status
            lines = _brief(status)
            for line in lines:
                if line not in shown:
                    print(f"{time.strftime('%H:%M:%S')} {visible(line)}", flush=True)
            shown = lines
            if status["phase"] in OVER:
                break
            time.sleep(1.0)
    except KeyboardInterrupt:
        print(f"run {run.name} goes on at the server; look with: amity federation status {run.name} --hub {hub}")
        return
    if (run.folder / "record" / "summary.json").exists():
        _show_results(run)
    if status["phase"] != "ended" and status["rounds"]:
        raise InputError(f"run {run.name} is no success, it is {status['phase']}: {status['words']}")


def _brief(status: Status) -> list[str]:
    """What is worth a line while one watches: the run's own state, and silos that are missing."""
    words = f": {status['words']}" if status["words"] else ""
    lines = [f"{status['phase']}{words}"]
    lines += [f"round {status['round']} of {status['rounds']} is done"] if status["rounds"] else []
    for name, silo in status["silos"].items():
        if silo["twice"] is not None:
            lines.append(f"{name} runs twice: its kit was started in two places, stop one")
        if silo["step"] in ("absent", "declined", "left"):
            lines.append(f"{name} is {silo['step']}: {silo['words'] or 'no reason known'}")
    return lines


def _show_results(run: HubRun) -> None:
    from amity.cli.report import read_run, report

    report([read_run(run.folder / "record")], run.folder / "record" / "report.html")
    status = run.status
    if status["phase"] == "ended":
        print(f"run {run.name} has ended: all that was agreed is done")
    else:
        print(visible(f"run {run.name} is {status['phase']}" + (f": {status['words']}" if status["words"] else "")))


def _without_results(run: HubRun) -> str:
    """Why there is nothing to show."""
    from amity.hub.board import OVER

    phase, words = run.status["phase"], run.status["words"]
    if not run.status["rounds"]:
        return f"{run.name} is about a schema, which has no results, it is {phase}: the schema is in {run.folder}"
    if phase in OVER:
        return f"run {run.name} has no results, it is {phase} ({words}): submit it anew, under another name"
    return f"run {run.name} has no results yet, it is {phase}: wait for its end"


def consortium_of(hub: Path) -> str:
    """The name of a hub's consortium."""
    from amity.engines.flare.kits.consortium import read_consortium

    return read_consortium(hub / "consortium.toml").name


def _event_line(event: Event) -> str:
    """An event in words, some of which a silo may have written."""
    parts = [
        _clock(event.time),
        f"round {event.round}",
        event.silo or "server",
        event.what,
        f"{event.seconds:.1f} s" if event.seconds is not None else "",
        f"{event.bytes / 1e6:.2f} MB" if event.bytes is not None else "",
        event.words,
    ]
    return visible("  ".join(part for part in parts if part))


def _clock(when: float) -> str:
    return f"{datetime.fromtimestamp(when):%Y-%m-%d %H:%M:%S}"


def _span(seconds: float) -> str:
    """A length of time in words."""
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{max(0.0, seconds):.0f} s"
