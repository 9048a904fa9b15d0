"""`amity federation try`: a whole federation on this machine, in about a minute."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amity.cli.federation.extra import require_extra
from amity.cli.flags import with_log_options
from amity.cli.progress import begin
from amity.errors import InputError

if TYPE_CHECKING:
    from amity.config.run import Run
    from amity.engines.flare.trial import Trial
    from amity.hub.board import Status


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("try")(with_log_options(try_command))


def try_command(
    silos: Annotated[int, typer.Option("--silos", metavar="N", help="how many", min=2, max=10)] = 3,
    rounds: Annotated[int, typer.Option("--rounds", metavar="N", help="of each run", min=1, max=100)] = 8,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="a new folder for all that is made; else it is removed")
    ] = None,
) -> None:
    """Try a federation on this machine: keys, a server, silos as processes, mutual TLS, two runs, verdicts."""
    require_extra()
    begin("making a consortium")
    from amity.cli.report import read_run, table
    from amity.config.run import Run
    from amity.engines.flare.trial import Trial, names_of, renamed
    from amity.prepare import silos_of

    keep = None if keep is None else keep.expanduser()
    if keep is not None and keep.exists():
        raise InputError(f"--keep needs a new folder, {keep} exists: name another")
    together = Run("heurfedamp", data="digits", clients=silos, rounds=rounds, epochs=5, engine="loop")
    alone = Run("separate", data="digits", clients=silos, rounds=rounds, epochs=5, engine="loop")
    data = renamed(silos_of(together), names_of(silos))
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="amity-try-")))
        trial = Trial(folder, data)
        say(f"made keys and kits of a server and {silos} silos; no private key left its folder")
        with trial:
            trial.start("server", *trial.names)
            say(f"started the server and {silos} silos as processes of their own, over mutual TLS on this machine")
            runs = [trial.submit(alone, "alone"), trial.submit(together, "together")]
            for run in runs:
                status = trial.wait(run, 600.0, _Shown())
                if status["phase"] != "ended":
                    logs = f"; the logs are in {folder}" if keep else "; --keep DIR keeps the logs"
                    raise InputError(f"run {run.name} is {status['phase']}: {status['words']}{logs}")
            table([read_run(run.folder / "record") for run in runs])
            _tell_verdicts(trial)
            _tell_equality(trial, together)
        say(
            "all processes have ended"
            + (f"; all files are in {folder}" if keep else ", all files are removed (--keep DIR keeps them)")
        )


class _Shown:
    """Says what has changed on a board."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, status: Status) -> None:
        line = f"run {status['run']}: {status['phase']}"
        if status["phase"] == "running":
            line += f", {status['round']} of {status['rounds']} rounds"
        elif status["words"]:
            line += f" ({status['words']})"
        if line != self._last:
            say(line)
            self._last = line


def _tell_verdicts(trial: Trial) -> None:
    """Every silo's own verdict, found out by itself with data that never left it."""
    from amity.engines.flare.trial import verdict

    for name in trial.names:
        say(f"silo {name} finds: {verdict(trial, name, 'together')['words']}")


def _tell_equality(trial: Trial, run: Run) -> None:
    """Whether the silos' models are those of a simulation of the same run."""
    import torch
    from safetensors.torch import load_file

    from amity.api import run as simulate

    result = simulate(run, trial.silos)
    equal = 0
    for name in trial.names:
        ours, theirs = load_file(trial.results(name, "together") / "model.safetensors"), result.model(name).state_dict()
        equal += all(torch.equal(ours[key], value) for key, value in theirs.items())
    say(f"{equal} of {len(trial.names)} personal models equal those of a simulation, bit for bit")


def say(words: str) -> None:
    """Print a line with the time."""
    print(f"{time.strftime('%H:%M:%S')} {words}", flush=True)
