"""Checkpoints: all that is needed to continue a run, swapped as a whole. A crash leaves the old one or the new one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from amity.contract import Model, State
from amity.errors import DamagedFile, InputError
from amity.federation.reports import Progress, SettledEntry, settled_entries, settled_of
from amity.federation.resume import Saved
from amity.record.checksums import SUMS, Check, Sums, read_sums, sums_of, sums_text
from amity.record.contents import CheckpointFile, EventsPrefix
from amity.record.directory import (
    CHECKPOINT,
    CHOSEN_CLIENTS,
    CHOSEN_SERVER,
    CLIENTS,
    NEW,
    OLD,
    PROGRESS,
    SCORES,
    SENT,
    SERVER,
)
from amity.record.files import load_json, sync, to_json
from amity.record.shapes import is_checkpoint
from amity.record.sharing import allow, make_folder


def save_checkpoint(
    path: Path,
    saved: Saved,
    right: Mapping[str, Sequence[Tensor]],
    seconds: float,
    check: Check,
    clouds: Mapping[int, Model] | None = None,
    events: EventsPrefix | None = None,
) -> None:
    """Write beside the last checkpoint, then swap. `settle` undoes a swap that was cut short.

    The last one is kept, in case that the new one is damaged when it is needed; the one before it makes room first, so
    that there are never more than two. `right`: each silo's `Score.each`, at the "delivered" and the "last" round.
    `check`: that of the round's line. `clouds`: the cloud models of the round to be delivered. `events`: those that
    belong to this round and the ones before it.
    """
    scores = [{"delivered": one, "last": last} for one, last in zip(right["delivered"], right["last"], strict=True)]
    progress, chosen = saved.progress, saved.kept
    files = {SERVER: progress.server, CLIENTS: _numbered(saved.states), SCORES: _numbered(scores)}
    if chosen is not None and chosen.round != progress.round:
        files |= {CHOSEN_SERVER: chosen.server, CHOSEN_CLIENTS: _numbered(saved.kept_states)}
    if clouds:
        files[SENT] = {f"{client}/{key}": value for client, model in clouds.items() for key, value in model.items()}
    settle(path)
    if (path / CHECKPOINT).exists():
        _remove(path / OLD)
    facts: CheckpointFile = {
        "round": progress.round,
        "seconds": seconds,
        "chosen": None if chosen is None else chosen.round,
    }
    if events is not None:
        facts["events"] = events
    if progress.settled:
        facts["settled"] = {client: list(entry) for client, entry in settled_entries(progress.settled).items()}
    new = path / NEW
    try:
        _write(new, files, facts, check)
    except Exception:  # a full disk: what does not count is not to take room
        shutil.rmtree(new, ignore_errors=True)
        raise
    if (path / CHECKPOINT).exists():
        (path / CHECKPOINT).rename(path / OLD)
    new.rename(path / CHECKPOINT)
    sync(path)


def _write(new: Path, files: Mapping[str, State], facts: CheckpointFile, check: Check) -> None:
    """Write a checkpoint to a folder of its own, and wait until it is on disk."""
    make_folder(new)
    for name, tensors in files.items():
        save_file(apart(tensors), new / name)
    (new / PROGRESS).write_bytes(to_json(facts))
    written = sorted(str(file.relative_to(new)) for file in new.rglob("*") if file.is_file())
    sums = Sums(new, sums_of(new, written), rounds=facts["round"], check=check.lines)
    (new / SUMS).write_bytes(sums_text(sums))
    for file in (*new.rglob("*"), new):
        allow(file)
        sync(file)


def settle(path: Path, *, drop_newest: bool = False) -> None:
    """Tidy up after a crash: the checkpoint in place counts, else the one before it.

    `drop_newest`: the one in place is damaged.
    """
    if drop_newest:
        _remove(path / CHECKPOINT)
    if not (path / CHECKPOINT).exists() and (path / OLD).exists():
        (path / OLD).rename(path / CHECKPOINT)
    _remove(path / NEW)


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


class Found(NamedTuple):
    """A checkpoint that is whole."""

    folder: Path
    round: int
    check: str | None  # of that round's line
    note: str | None  # why it is not the newest


def find_checkpoint(path: Path) -> Found | None:
    """Return the newest checkpoint that is as it was written, None where there is none; refuse if all are damaged."""
    trouble: InputError | None = None
    for folder in (path / CHECKPOINT, path / OLD):
        if not folder.exists():
            continue
        try:
            sums = _whole(folder)
        except InputError as error:
            trouble = trouble or error
            continue
        note = None
        if trouble is not None:
            note = f"{trouble}; continued from the checkpoint before it, round {sums.rounds}"
        return Found(folder, sums.rounds or 0, sums.check, note)
    if trouble is None:
        return None
    raise DamagedFile(f"{trouble}, and there is no older checkpoint: --force runs it anew") from trouble


def _whole(folder: Path) -> Sums:
    sums = read_sums(folder)
    if sums is None:
        raise DamagedFile(f"{folder / SUMS} is missing")
    for name in sums.files:
        sums.whole(name)
    return sums


class Checkpoint(NamedTuple):
    """A checkpoint, read back."""

    saved: Saved
    right: dict[str, list[Tensor]]
    seconds: float
    clouds: dict[int, Model] | None
    events: EventsPrefix | None  # None: of a version that kept no events


def load_checkpoint(folder: Path, clients: int) -> Checkpoint:
    """Read a checkpoint back."""
    try:
        facts = load_json(folder / PROGRESS)
        if not is_checkpoint(facts):
            raise ValueError(f"{PROGRESS} is not what a run writes")
        settled = settled_of(cast(Mapping[str, SettledEntry], facts.get("settled", {})))
        progress = Progress(facts["round"], _load_tensors(folder / SERVER), settled)
        states = _unnumbered(_load_tensors(folder / CLIENTS), clients)
        scores = _unnumbered(_load_tensors(folder / SCORES), clients)
        right = {which: [score[which] for score in scores if score] for which in ("delivered", "last")}
        saved = _with_chosen(folder, facts["chosen"], Saved(progress, states))
        return Checkpoint(saved, right, facts["seconds"], _clouds(folder, clients), facts.get("events"))
    except (OSError, SafetensorError, LookupError, TypeError, ValueError) as error:
        raise DamagedFile(f"{folder} cannot be read ({error}): --force runs it anew") from error


def _with_chosen(folder: Path, round: int | None, saved: Saved) -> Saved:
    """Return it with the round that validation data have chosen so far, which may be an earlier one."""
    if round is None or round == saved.progress.round:
        return saved if round is None else saved._replace(kept=saved.progress)
    states = _unnumbered(_load_tensors(folder / CHOSEN_CLIENTS), len(saved.states))
    return saved._replace(kept=Progress(round, _load_tensors(folder / CHOSEN_SERVER)), kept_states=states)


def _clouds(folder: Path, clients: int) -> dict[int, Model] | None:
    if not (folder / SENT).exists():
        return None
    models = _unnumbered(_load_tensors(folder / SENT), clients)
    return {client: model for client, model in enumerate(models) if model}


def apart(tensors: Mapping[str, Tensor]) -> State:
    """Return the tensors as a safetensors file wants them: on the CPU, contiguous, none overlapping another.

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
