"""All that is needed to continue a run, swapped as a whole: a crash leaves the old checkpoint or the new one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from amity.contract import InputError, Progress, State
from amity.record.directory import CHECKPOINT, CLIENTS, NEW, OLD, PROGRESS, SCORES, SERVER
from amity.record.files import load_json, sync, to_json


def save_checkpoint(path: Path, progress: Progress, right: Mapping[str, Sequence[Tensor]], seconds: float) -> None:
    """Write beside the old checkpoint, then swap. `settle` undoes a swap that was cut short.

    `right`: each silo's `Score.each`, at the "best" and the "last" round.
    """
    scores = [{"best": best, "last": last} for best, last in zip(right["best"], right["last"], strict=True)]
    files = {SERVER: progress.server, CLIENTS: _numbered(progress.clients), SCORES: _numbered(scores)}
    settle(path)
    new = path / NEW
    new.mkdir()
    for name, tensors in files.items():
        save_file(apart(tensors), new / name)
    (new / PROGRESS).write_bytes(to_json({"round": progress.round, "seconds": seconds}))
    for file in (*new.iterdir(), new):
        sync(file)
    if (path / CHECKPOINT).exists():
        (path / CHECKPOINT).rename(path / OLD)
    new.rename(path / CHECKPOINT)
    sync(path)
    shutil.rmtree(path / OLD, ignore_errors=True)


def settle(path: Path) -> None:
    """After a crash: the checkpoint in place counts, else the one that was about to be replaced."""
    if not (path / CHECKPOINT).exists() and (path / OLD).exists():
        (path / OLD).rename(path / CHECKPOINT)
    for leftover in (path / OLD, path / NEW):
        if leftover.exists():
            shutil.rmtree(leftover)


class Saved(NamedTuple):
    """A checkpoint, read back."""

    progress: Progress
    right: dict[str, list[Tensor]]
    seconds: float


def load_checkpoint(path: Path, clients: int) -> Saved | None:
    folder = path / CHECKPOINT
    if not folder.exists():
        return None
    try:
        facts = load_json(folder / PROGRESS)
        states = _unnumbered(_load_tensors(folder / CLIENTS), clients)
        progress = Progress(facts["round"], _load_tensors(folder / SERVER), states)
        scores = _unnumbered(_load_tensors(folder / SCORES), clients)
        right = {which: [score[which] for score in scores if score] for which in ("best", "last")}
        return Saved(progress, right, facts["seconds"])
    except (OSError, SafetensorError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{folder} cannot be read ({error}): --force runs it anew") from error


def apart(tensors: Mapping[str, Tensor]) -> State:
    """The tensors as a safetensors file wants them: on the CPU, contiguous, none overlapping another.

    Only those that overlap are copied: rows of one large matrix are written from where they lie.
    """
    packed = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    end = 0
    for key in sorted(packed, key=lambda key: packed[key].data_ptr()):
        value = packed[key]
        if value.data_ptr() < end:
            packed[key] = value.clone()
        else:
            end = value.data_ptr() + value.numel() * value.element_size()
    return packed


def _numbered(tensors: Sequence[Mapping[str, Tensor]]) -> State:
    return {f"{index}/{key}": value for index, state in enumerate(tensors) for key, value in state.items()}


def _unnumbered(tensors: Mapping[str, Tensor], count: int) -> list[State]:
    states: list[State] = [{} for _ in range(count)]
    for key, value in tensors.items():
        index, name = key.split("/", 1)
        states[int(index)][name] = value
    return states


def _load_tensors(path: Path) -> State:
    # Clones: a memory-mapped tensor may be aligned otherwise, and sums of it then differ in the last bit.
    return {key: value.clone() for key, value in load_file(path).items()}
