"""What was measured, as tables for people and as JSON for programs."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from amity.errors import InputError
from benchmarks import BENCHMARKS
from benchmarks.measure import Benchmark, Goal, Missing, Repeat, load, measure, ratios


def run(names: Sequence[str], repeats: int, quick: bool, file: str | None, out: Console, err: Console) -> None:
    """Measure these benchmarks (none named: all of the package) and show each when it is done."""
    if repeats < 1:
        raise InputError(f"a benchmark needs at least 1 repeat, got {repeats}: raise --repeats")
    if file and not Path(file).absolute().parent.is_dir():
        raise InputError(f"--json needs a file in a directory that exists, got {file}: make the directory first")
    loaded: list[Benchmark] = []
    for name in names or BENCHMARKS:
        try:
            loaded.append(load(name, quick))
        except Missing as missing:
            err.print(escape(f"{name} skipped: {missing}"), highlight=False, soft_wrap=True)
    out.print(describe(machine()), highlight=False)
    results = {}
    for benchmark in loaded:
        with err.status(benchmark.name) as status:

            def notify(repeat: int, case: str, name: str = benchmark.name) -> None:
                turn = f"repeat {repeat} of {repeats}" if repeat else "warming up"
                status.update(escape(f"{name}: {turn}, {case}"))  # noqa: B023

            done = measure(benchmark, repeats, quick, notify)
        results[benchmark.name] = as_data(benchmark, done, quick)
        show(results[benchmark.name], out)
        if file:  # after each: an interruption loses one benchmark, not all
            Path(file).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def as_data(benchmark: Benchmark, repeats: Sequence[Repeat], quick: bool) -> dict[str, Any]:
    """All that was measured, for JSON."""
    return {
        "title": benchmark.title,
        "machine": machine(),
        "quick": quick,
        "cases": {case: _case(repeats, case, benchmark.baselines[case]) for case in benchmark.cases},
        "goals": [_goal(goal, repeats) for goal in benchmark.goals],
        "notes": list(benchmark.notes),
    }


def _case(repeats: Sequence[Repeat], case: str, baseline: str | None) -> dict[str, Any]:
    samples = [repeat[case] for repeat in repeats]
    seconds = [sample.seconds for sample in samples]
    return {
        "seconds": seconds,
        "median": statistics.median(seconds),
        "baseline": baseline,
        "speed": None if baseline is None else statistics.median(ratios(repeats, case, baseline)),
        "figures": {key: [sample.figures[key] for sample in samples] for key in samples[0].figures},
    }


def _goal(goal: Goal, repeats: Sequence[Repeat]) -> dict[str, Any]:
    values = [goal.value(repeat) for repeat in repeats]
    return {
        "what": goal.what,
        "values": values,
        "median": statistics.median(values),
        "at_least": goal.at_least if math.isfinite(goal.at_least) else None,
        "at_most": goal.at_most if math.isfinite(goal.at_most) else None,
        "met": goal.met(repeats),
    }


def show(result: dict[str, Any], out: Console) -> None:
    repeats = len(next(iter(result["cases"].values()))["seconds"])
    sizes = " With --quick: tiny sizes instead." if result["quick"] else ""
    title = f"{result['title']}{sizes} Repeats: {repeats}."
    out.print(_table(title, ("", "median s", "least to most", "speed"), case_rows(result)))
    if result["goals"]:
        out.print(_table("", ("", "median", "least to most", "target", ""), goal_rows(result)))
    for note in result["notes"]:
        out.print(escape(note), style="dim", highlight=False)
    out.print()


def case_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Case, median seconds, their spread, speed against its baseline where it has one."""
    return [
        (
            case,
            f"{row['median']:.3f}",
            spread(row["seconds"], 3),
            "" if row["speed"] is None else f"{row['speed']:.2f}x",
        )
        for case, row in result["cases"].items()
    ]


def goal_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """What, its median, its spread, the target, and whether it was met: sizes of --quick cannot tell."""
    return [
        (goal["what"], f"{goal['median']:.2f}", spread(goal["values"], 2), target(goal), verdict(goal, result["quick"]))
        for goal in result["goals"]
    ]


def spread(values: Sequence[float], digits: int) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def target(goal: dict[str, Any]) -> str:
    low, high = goal["at_least"], goal["at_most"]
    if low is None:
        return "" if high is None else f"at most {high:g}"
    return f"at least {low:g}" if high is None else f"{low:g} to {high:g}"


def verdict(goal: dict[str, Any], quick: bool) -> str:
    if not target(goal):
        return ""
    return "too small to tell" if quick else "met" if goal["met"] else "not met"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=escape(title), title_justify="left", title_style="bold")
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if 0 < place < 4 else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": _memory(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": version("torch").partition("+")[0],
        "amity": version("amity"),
    }


def describe(facts: dict[str, Any]) -> str:
    memory = "" if facts["memory_gib"] is None else f", {facts['memory_gib']} GiB"
    cores = f"{facts['cores']} cores of {facts['cpu']}{memory}"
    return f"{cores}, {facts['system']}, Python {facts['python']}, torch {facts['torch']}"


def _memory() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (AttributeError, ValueError, OSError):  # not every system tells
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
