"""The benchmarks of a checkout: they measure the source, stand beside it and are not installed with the package."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from amity.errors import InputError

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"


def _find() -> bool:
    """Make this checkout's folder the package `benchmarks`, wherever the command is called from; False without one.

    By its path and not by `sys.path`: other packages of that name may be installed.
    """
    first = FOLDER / "__init__.py"
    if not first.is_file():
        return False
    if "benchmarks" not in sys.modules:
        spec = importlib.util.spec_from_file_location("benchmarks", first, submodule_search_locations=[str(FOLDER)])
        assert spec is not None and spec.loader is not None  # a .py file has a loader
        sys.modules["benchmarks"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["benchmarks"])
    return True


def _help() -> str:
    if not _find():
        return "a benchmark, or a file with cases (they come with Amity's source)"
    from benchmarks import BENCHMARKS

    return f"{', '.join(BENCHMARKS)}, or a file with cases"


BENCHMARK_NAMES = _help()
"""The names that `amity bench` takes, for its help."""


def run_benchmarks(
    names: Sequence[str], repeats: int, quick: bool, file: str | None, out: Console, err: Console
) -> None:
    """Measure these benchmarks, or all, and show each when it is done; refuse where there is no checkout."""
    if not _find():
        raise InputError(
            "benchmarks come with Amity's source, and this Amity was installed without it: "
            "call amity bench in a checkout, after make setup"
        )
    from benchmarks.show import run

    run(names, repeats, quick, file, out, err)
