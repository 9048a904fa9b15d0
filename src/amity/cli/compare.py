"""`amity compare`: several methods on the same federation."""

from __future__ import annotations

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
from amity.config.references import ALONE, REFERENCES
from amity.config.seeds import seed_directory
from amity.errors import InputError


@with_log_options
@with_run_options
def compare_command(
    *,
    methods: Annotated[
        list[str] | None, typer.Argument(metavar="METHOD...", help="see `amity methods`", show_default=False)
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
    """Run several methods on the same federation; prints a table, writes the runs and report.html.

    Every silo also trains alone (`separate`), so that the report can say for whom joining is worth it.

    --set key=value goes to every method that knows the key; --set METHOD.key=value to one, also for its lr,
    lr_decay, optimizer, momentum, batch, epochs, ending and robust.
    """
    from amity.resolve import fair_references

    file = plan.config_of(config)
    names = list(methods or file.get("methods", []))
    if not names:
        raise InputError("compare needs METHOD METHOD ..., got none: see `amity methods`")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"compare needs different methods, got {twice} more than once: leave one out")
    begin(f"comparing {', '.join(names)}")
    each = plan.flags_of_each_seed(seeds, given, file)
    target = plan.target_of(directory, lambda: plan.runs_of(names, given, file, settings or [])[0], "compare", each)
    alone = alone and ALONE not in names and not set(names) <= set(REFERENCES)
    if force and not alone:
        from amity.record import refuse_stale_alone

        refuse_stale_alone(target, names)
    for name in [*names, *([ALONE] if alone else [])]:
        plan.check_seeds(target / name, each, resume=resume)
    planned = []
    for seed, flags in each:
        places = {name: target / name if seed is None else seed_directory(target / name, seed) for name in names}
        begun = {name: plan.config_of(None, place) for name, place in places.items()} if resume else {}
        runs = fair_references(plan.runs_of(names, flags, file, settings or [], plan.agreed(begun)))
        planned += list(zip(runs, places.values(), strict=True))
        if alone:
            beside = target / ALONE if seed is None else seed_directory(target / ALONE, seed)
            own = plan.config_of(None, beside) if resume else {}
            planned.append((plan.alone_run(runs[0], flags, file, {**begun, ALONE: own}), beside))
    running.run_all(planned, target, resume=resume, force=force, data_dir=data_dir, watch=watch, log=log or ())
