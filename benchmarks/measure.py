"""Measuring: every case in a process of its own, all of them in turn in every repeat.

A process of its own, because what one case does to the process (threads, settings of the memory allocator, what is
imported) must not reach another. The processes stay alive over the repeats, and only one works at a time.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, Self

from amity.config import options
from amity.errors import InputError
from benchmarks import BENCHMARKS

CHECKOUT = Path(__file__).resolve().parents[1]

Figures = Mapping[str, float]
Work = Callable[[], object]
"""What is timed. It may return figures; "seconds" among them is then the time, in place of the clock's."""


class Sample(NamedTuple):
    """One case in one repeat."""

    seconds: float
    figures: dict[str, float]


Repeat = Mapping[str, Sample]
"""Case -> what it took in this repeat."""


class Goal(NamedTuple):
    """What is promised: a value of each repeat, whose median must lie in a range."""

    what: str
    value: Callable[[Repeat], float]
    at_least: float = -math.inf
    at_most: float = math.inf

    def met(self, repeats: Sequence[Repeat]) -> bool:
        return self.at_least <= statistics.median(map(self.value, repeats)) <= self.at_most


class Benchmark(NamedTuple):
    """What a file of benchmarks says."""

    name: str
    source: str  # a module's name, or a file
    title: str
    cases: list[str]
    goals: Sequence[Goal]
    notes: Sequence[str]
    baselines: Mapping[str, str | None]  # case -> the one it is compared with


class Missing(Exception):
    """A benchmark cannot run here; the text says what it needs."""


def lazily(prepare: Callable[[], Work]) -> Work:
    """Work that is set up when it is first done, in the unmeasured pass and in its own process only."""
    ready = functools.cache(prepare)
    return lambda: ready()()


def speed(baseline: str, case: str, at_least: float) -> Goal:
    """How much faster than the baseline a case must be."""
    return Goal(f"{case} against {baseline}", lambda r: r[baseline].seconds / r[case].seconds, at_least=at_least)


def module_of(source: str) -> ModuleType:
    """A module by its name or by its file."""
    if not source.endswith(".py"):
        return importlib.import_module(source)
    spec = importlib.util.spec_from_file_location(Path(source).stem, source)
    assert spec is not None and spec.loader is not None  # a .py file has a loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases_of(module: ModuleType, quick: bool) -> dict[str, Work]:
    """Its cases; a file that knows one size only takes no argument."""
    cases = module.cases
    found: dict[str, Work] = cases(quick) if inspect.signature(cases).parameters else cases()
    return found


def load(name: str, quick: bool) -> Benchmark:
    """A benchmark of this package by name, or any file with `cases` by its path."""
    path = Path(name)
    if name not in BENCHMARKS and not (path.suffix == ".py" and path.is_file()):
        raise options.unknown("benchmark", name, BENCHMARKS)
    source = BENCHMARKS.get(name) or str(path.resolve())
    try:
        module = module_of(source)
    except ModuleNotFoundError as error:
        raise Missing(f"needs {error.name}, which is not installed") from error
    for package in getattr(module, "NEEDS", ()):
        if importlib.util.find_spec(package) is None:
            raise Missing(f"needs {package}, which is not installed")
    if not callable(getattr(module, "cases", None)):
        raise InputError(f"a benchmark needs a function cases, {name} has none: see benchmarks/local.py")
    title = " ".join((inspect.getdoc(module.cases) or inspect.getdoc(module) or name).split())
    cases = list(cases_of(module, quick))
    baseline = getattr(module, "baseline", lambda case: cases[0])
    return Benchmark(
        name if name in BENCHMARKS else path.stem,
        source,
        title,
        cases,
        getattr(module, "GOALS", ()),
        getattr(module, "notes", list)(),
        {case: baseline(case) for case in cases},
    )


def environment() -> dict[str, str]:
    """This process's environment, for processes that import from this folder: it is not installed anywhere."""
    found_in = [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, found_in))}


class Child:
    """A process that holds one case and does it when asked."""

    def __init__(self, source: str, case: str, quick: bool) -> None:
        self._case = case
        # As a user of a library has them: as many threads as torch chooses.
        kept = {key: value for key, value in environment().items() if key not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        # -P: a folder of the same name, where the command is called, is not this one.
        command = [sys.executable, "-P", "-m", "benchmarks.child", source, case, "quick" if quick else "full"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=kept
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.terminate()
        self._process.communicate()  # closes its input, which ends it

    def sample(self) -> Sample:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write("work\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise RuntimeError(f"the case {self._case!r} failed: what went wrong is printed above")
        told: dict[str, Any] = json.loads(answer)
        if "error" in told:
            raise InputError(f"{self._case}: {told['error']}")
        return Sample(told["seconds"], told["figures"])


def measure(
    benchmark: Benchmark, repeats: int, quick: bool, notify: Callable[[int, str], None] = lambda repeat, case: None
) -> list[Repeat]:
    """Every repeat does all cases in turn, after one pass that is not measured."""
    with ExitStack() as stack:
        children = {c: stack.enter_context(Child(benchmark.source, c, quick)) for c in benchmark.cases}
        done: list[Repeat] = []
        for repeat in range(repeats + 1):
            samples = {}
            for case, child in children.items():
                notify(repeat, case)
                samples[case] = child.sample()
            done.append(samples)
        return done[1:]


def ratios(repeats: Sequence[Repeat], case: str, baseline: str) -> list[float]:
    """How much faster than the baseline in every repeat."""
    return [repeat[baseline].seconds / repeat[case].seconds for repeat in repeats]
