"""`amity bench`: speed, as ratios against baselines in the same run."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from amity.cli.benchmarks import BENCHMARK_NAMES, run_benchmarks
from amity.cli.flags import with_log_options
from amity.cli.progress import err

out = Console()


@with_log_options
def bench_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help=BENCHMARK_NAMES, show_default=False),
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", help="how often each case is timed")] = 5,
    file: Annotated[str | None, typer.Option("--json", metavar="FILE", help="write all that was measured")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="tiny sizes: see that it runs, not how fast")] = False,
) -> None:
    """Measure speed, as ratios against baselines in the same run."""
    run_benchmarks(names or [], repeats, quick, file, out, err)
