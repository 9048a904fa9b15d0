"""The command line in tests: what a call has said, small commands, and readers of what they leave on disk."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TINY = "--data synthetic --setting iid --clients 3 --model mlr --rounds 2 --epochs 1 --workers 1".split()


MODEL_BYTES = 4 * (20 * 10 + 10)  # mlr on synthetic: 20 features, 10 classes, float32


class Said(NamedTuple):
    """What a command has printed, and its exit code."""

    code: int
    out: str
    err: str


Amity = Callable[..., Said]


def tree(path: Path, but: str = "") -> dict[str, bytes | None]:
    """Return every file with its content and every directory, without the files of one name."""
    return {
        str(item.relative_to(path)): item.read_bytes() if item.is_file() else None
        for item in sorted(path.rglob("*"))
        if item.name != but
    }


def summary(path: Path) -> dict[str, Any]:
    """Return what a run found, without the time that it took."""
    content: dict[str, Any] = json.loads((path / "summary.json").read_text())
    return {key: value for key, value in content.items() if key != "seconds"}


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the rounds of a run as it has recorded them."""
    return [json.loads(text) for text in (path / "rounds.jsonl").read_text().splitlines()]


def config(path: Path) -> dict[str, Any]:
    """Return the configuration that a run has written."""
    return tomllib.loads((path / "config.toml").read_text())


def models(path: Path) -> dict[str, bytes | None]:
    """Return the files of all personal models but their cards, which tell what lies beside the run."""
    return {name: content for name, content in tree(path / "models").items() if not name.endswith(".md")}


def arrays(file: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file by name."""
    with np.load(file) as archive:
        return dict(archive)


def worked(said: Said) -> None:
    """Require that a command came to its end."""
    assert said.code == 0, said.err
    assert "Traceback" not in said.err


def refused(said: Said, *needed: str) -> None:
    """Require exit code 2 and one clear line that holds these words."""
    assert said.code == 2, said
    assert "Traceback" not in said.err
    assert len(said.err.splitlines()) == 1, said.err
    assert said.err.startswith("amity: ")
    assert said.out == ""
    for words in needed:
        assert words in said.err


def without_alone(words: Sequence[str]) -> list[str]:
    """Return a command that trains no silo alone beside its methods, unless it says so itself.

    That phase has tests of its own (test_cli_alone.py); elsewhere it would double the time.
    """
    command = next((word for word in words if word in ("run", "compare", "report", "federation")), None)
    trains = command in ("run", "compare") and not {"--alone", "--no-alone"} & set(words)
    return [*words, *(["--no-alone"] if trains else [])]


def with_tiny(command: str) -> list[str]:
    """Return the command on the tiny federation, as far as it does not say otherwise itself."""
    words = command.split()
    pairs = zip(TINY[::2], TINY[1::2], strict=True)
    return [*words, *(word for flag, value in pairs if flag not in words for word in (flag, value))]


def clinics(path: Path) -> None:
    """Write three silos: two files that are to be divided, one folder with both parts."""
    rows = [(i % 5 / 2, i % 7 / 3, ("ill", "well")[i % 2]) for i in range(20)]

    def text(part: list[tuple[float, float, str]]) -> str:
        return "pressure,sugar,label\n" + "".join(f"{a},{b},{c}\n" for a, b, c in part)

    (path / "south").mkdir(parents=True)
    (path / "east.csv").write_text(text(rows))
    (path / "north.csv").write_text(text(rows))
    (path / "south" / "train.csv").write_text(text(rows[:12]))
    (path / "south" / "test.csv").write_text(text(rows[12:]))
