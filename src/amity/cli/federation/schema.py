"""`amity federation schema`: silos agree on what the columns of their tables are, before a run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amity.cli.federation.extra import require_extra
from amity.cli.federation.runs import Hub, consortium_of, follow
from amity.cli.flags import with_log_options
from amity.cli.progress import begin
from amity.errors import InputError

if TYPE_CHECKING:
    from amity.hub.run_file import Asked
    from amity.hub.runs import HubRun


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("schema")(with_log_options(schema_command))


def schema_command(
    file: Annotated[Path, typer.Argument(metavar="RUN.toml", help="the run; its [data] names the schema file to make")],
    hub: Hub,
    detach: Annotated[bool, typer.Option("--detach", help="do not wait; call it again to get the file")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask before it is signed")] = False,
) -> None:
    """Let silos agree on a schema for their tables, by summaries of their columns, and write it beside RUN.toml.

    Each silo is asked first: it sees in plain words what a summary tells, and approves it or does not.
    """
    require_extra()
    begin("making the contract")
    from amity.engines.flare.kits import members
    from amity.hub.run_file import schema_contract_of_file
    from amity.hub.runs import run_names, run_of

    there = [member.name for member in members(hub) if not member.removed]
    asked = schema_contract_of_file(file, consortium_of(hub), there)
    if asked.file.exists():
        raise InputError(f"{asked.file} is there already: submit the run, or move the file away to agree anew")
    name = asked.contract.name
    if name in run_names(hub):
        run = run_of(hub, name)
        if run.contract != asked.contract:
            raise InputError(f"{hub} has asked for {name!r} with other words than {file} has now: rename the run")
    else:
        run = _signed(hub, asked, yes=yes)
    if not detach:
        _finished(hub, run, asked.file)


def _signed(hub: Path, asked: Asked, *, yes: bool) -> HubRun:
    from amity.engines.flare.kits import signing_key
    from amity.federation.contract_words import in_words
    from amity.federation.signed import sign
    from amity.hub.runs import add_run

    if not yes:
        print(in_words(asked.contract))
        if not typer.confirm("Sign this and put it to the silos?"):
            raise typer.Exit(1)
    run = add_run(hub, sign(asked.contract, *signing_key(hub), datetime.now(UTC)))
    print(f"{run.name} is in {run.folder}: each silo that is invited has to approve it")
    return run


def _finished(hub: Path, run: HubRun, out: Path) -> None:
    """Follow the agreement to its end, and put the schema where the run wants it."""
    from amity.hub.agreeing import SCHEMA_FILE
    from amity.hub.board import OVER
    from amity.record.files import replace

    follow(hub, run)
    status = run.status
    if status["phase"] not in OVER:
        return  # somebody does not want to wait
    if not (run.folder / SCHEMA_FILE).exists():
        raise InputError(f"{run.name} is {status['phase']}: {status['words']}")
    try:
        replace(out, (run.folder / SCHEMA_FILE).read_bytes())
    except OSError as error:
        raise InputError(f"cannot write {out} ({error.strerror or error}): choose another place") from None
    print(f"wrote {out}: look at it, then submit the run, whose contract will hold it")
    if status["words"]:
        raise InputError(f"{status['words']}: choose a kind for each, then submit the run")
