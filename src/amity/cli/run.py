"""`amity run`: one method on one federation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from amity.cli import plan, running
from amity.cli.flags import (
    Alone,
    Config,
    DataDir,
    Force,
    Log,
    Out,
    Resume,
    Seeds,
    Settings,
    with_log_options,
    with_run_options,
)
from amity.cli.progress import begin
from amity.cli.watch import Watch
from amity.config.references import ALONE, ALONE_FOLDER, REFERENCES
from amity.config.seeds import seed_directory
from amity.errors import InputError


@with_log_options
@with_run_options
def run_command(
    *,
    method: Annotated[
        str | None, typer.Argument(metavar="METHOD", help="see `amity methods`", show_default=False)
    ] = None,
    config: Config = None,
    settings: Settings = None,
    directory: Out = None,
    resume: Resume = False,
    force: Force = False,
    data_dir: DataDir = None,
    seeds: Seeds = None,
    alone: Alone = True,
    watch: Watch = False,
    log: Log = None,
    given: dict[str, str],
) -> None:
    """Run one method, and every silo alone beside it; writes a run directory with models, record and report.

    The report says for each silo whether joining was worth it. Its run alone lies in OUT/alone.
    """
    file = plan.config_of(config)
    known = plan.config_of(None, Path(directory)) if directory is not None and resume else {}
    name = method or file.get("method") or known.get("method")
    if name is None:
        raise InputError("run needs a METHOD, got none: see `amity methods`")
    begin(f"running {name}")
    each = plan.flags_of_each_seed(seeds, given, file)
    target = plan.target_of(directory, lambda: plan.runs_of([name], given, file, settings or [])[0], name, each)
    plan.check_seeds(target, each, resume=resume)
    planned = []
    for seed, flags in each:
        place = target if seed is None else seed_directory(target, seed)
        own = plan.config_of(None, place) if resume else {}
        if name != own.get("method", name):
            raise InputError(f"{place} has method = {own['method']!r}, got {name!r}: resume with the same method")
        planned.append((plan.runs_of([name], flags, file, settings or [], {name: own})[0], place))
        if alone and name not in REFERENCES:
            beside = target / ALONE_FOLDER if seed is None else seed_directory(target / ALONE_FOLDER, seed)
            begun = {name: own, ALONE: plan.config_of(None, beside) if resume else {}}
            planned.append((plan.alone_run(planned[-1][0], flags, file, begun), beside))
    running.run_all(planned, target, resume=resume, force=force, data_dir=data_dir, watch=watch, log=log or ())
