"""Experiments found on disk and read, each with what it takes over from another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from amity.config.options import unknown
from amity.errors import InputError
from amity.papers.spec.checks import check_content
from amity.papers.spec.experiment import Experiment
from amity.papers.spec.shape import check_shape
from amity.papers.spec.vocabulary import TOP_KEYS
from amity.small_files import parse_toml, read_small


def home() -> Path:
    """Return the folder of Amity's own experiments: in the checkout, or inside the installed package."""
    here = Path(__file__).resolve()
    inside, beside = here.parents[1] / "files", here.parents[4] / "experiments"
    return inside if inside.is_dir() else beside


def names(root: Path | None = None) -> list[str]:
    """Return the names of all experiments, PAPER/NAME, in alphabetical order."""
    root = root or home()
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.glob("*/*.toml"))


def names_or_refuse(root: Path | None = None) -> list[str]:
    """Return the names of all experiments; refuse a folder without any."""
    found = names(root)
    if not found:
        raise InputError(f"no experiment lies in {root or home()}: give a directory with PAPER/NAME.toml")
    return found


def read(name: str, root: Path | None = None) -> Experiment:
    """Read and check one experiment, so that mistakes in its file are found now and not after hours of running."""
    root = root or home()
    if name not in (known := names_or_refuse(root)):
        raise unknown("experiment", name, known)
    content = _read_content(name, root, ())
    check_shape(content, name)
    experiment = Experiment(name, content)
    check_content(experiment)
    return experiment


def _read_content(name: str, root: Path, readers: Sequence[str]) -> dict[str, Any]:
    """Read a file and those that it is like; `readers` are the experiments that are like this one."""
    path = root / f"{name}.toml"
    try:
        own = parse_toml(read_small(path).decode())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"the experiment {path} cannot be read: {error}") from None
    for key in own:
        if key not in TOP_KEYS:
            raise unknown(f"key in {path}:", key, TOP_KEYS)
    if "like" not in own:
        return own
    if own["like"] in (name, *readers):
        raise InputError(f"{path} is like {own['like']}, which is like it: leave one `like` out")
    base = _read_content(own["like"], root, (*readers, name))
    left_out = ["claims", *(["paper_values"] if "paper_values" in own else [])]  # a claim is judged in one place
    return _merged({key: value for key, value in base.items() if key not in left_out}, own)


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tables key by key; anything else is replaced."""
    merged = dict(base)
    for key, value in own.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
