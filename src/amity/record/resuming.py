"""Resuming a run: finding the checkpoint to continue from, and forgetting the rounds after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amity.config.ending import all_rounds
from amity.errors import DamagedFile, InputError
from amity.record.checkpoint import Checkpoint, Found, find_checkpoint, load_checkpoint, settle
from amity.record.checksums import SUMS, Check, Sums, checked_lines
from amity.record.configuration import as_written, config_text, refuse_other_config
from amity.record.contents import Config
from amity.record.directory import (
    CHECKPOINT,
    CONFIG,
    LINES,
    MODELS,
    OLD,
    PART,
    SUMMARY,
    has_ended,
    holds_run,
    weights_part,
)
from amity.record.files import replace
from amity.record.reader import Record, read
from amity.record.seal import Seal


def begun(path: Path) -> bool:
    """Return whether there is a run to continue. What a crash has left of one that was being created is none."""
    if not holds_run(path):
        return False
    written = path / LINES
    if any((path / mark).exists() for mark in (SUMMARY, CHECKPOINT, OLD)) or (
        written.exists() and written.stat().st_size > 0
    ):
        return True
    try:
        read(path)
    except InputError:
        return False
    return True


def check_resumable(path: Path, config: Mapping[str, Any], silos: Sequence[str], facts: Mapping[str, Any]) -> None:
    """Refuse to resume under another configuration or with other data, which would be neither run."""
    record, written = read(path), as_written(config)
    refuse_other_config(path, record.config, written)
    _refuse_after_ending(record, written)
    if _start(record, all_rounds(written)) is None:
        _kept_without(record, all_rounds(written))
    if record.silos != list(silos):
        raise InputError(
            f"{path} has the silos {', '.join(record.silos)}, got {', '.join(silos)}: resume with the same silos"
        )
    if record.facts.get("sha256") != facts.get("sha256"):
        raise InputError(f"{path} was run on other data than these silos hold: resume with the same data")


def go_back(path: Path, round: int) -> None:
    """Drop a checkpoint of a later round than this one: whoever resumes forgets what came after the one before it."""
    found = find_checkpoint(path)
    if found is not None and found.round > round:
        settle(path, drop_newest=True)


class Resumption(NamedTuple):
    """The place from which a run goes on."""

    saved: Checkpoint | None  # the checkpoint; None: from the beginning, or a finished run without one
    done: int  # rounds that stay
    drop_newest: bool  # whether the newest checkpoint is damaged, and `saved` the one before it
    anew: bool  # whether the results of a finished run are damaged, and written again
    notes: list[str]  # for whoever resumes the run


def resumption(record: Record, config: Config) -> Resumption:
    """Return where a run goes on under a configuration; refuse one that cannot be continued."""
    refuse_other_config(record.path, record.config, config)
    _refuse_after_ending(record, config)
    found = _start(record, all_rounds(config))
    saved = load_checkpoint(found.folder, len(record.silos)) if found else None
    done = saved.saved.progress.round if saved else _kept_without(record, all_rounds(config))
    finished = has_ended(record.path) and done >= all_rounds(config)
    trouble = _results_trouble(record) if finished else None
    if trouble is not None and saved is None:
        raise trouble
    older = found.note if found else None
    notes = [older] if older else []
    notes += [f"{trouble}; results are written anew from the checkpoint"] if trouble else []
    return Resumption(saved, done, older is not None, trouble is not None, notes)


def rewind(record: Record, sums: Sums, config: Config, done: int) -> tuple[Seal, list[Check]]:
    """Forget the rounds after `done`, and let no result count until there are new ones.

    Gives back the seal of the run that goes on, and the checks of the lines that stay.
    """
    path = record.path
    parts = {round: weights_part(round, matrix) for round, matrix in record.weights.items() if round <= done}
    seal = Seal.again(sums, config)
    seal.open()
    if done < all_rounds(config):
        (path / SUMMARY).unlink(missing_ok=True)
    texts, checks = checked_lines(record.lines[:done], parts)
    replace(path / PART, b"".join(parts.values()))
    replace(path / LINES, b"".join(texts))
    replace(path / CONFIG, config_text(config))
    return seal, checks


def _refuse_after_ending(record: Record, config: Config) -> None:
    """Refuse more rounds where silos have gone on alone: what they have learnt since would be lost."""
    if record.lines and record.lines[-1].get("ending") and all_rounds(config) > len(record.lines):
        raise InputError(
            f"{record.path} has had its ending after round {len(record.lines) - 1}, got rounds = {config['rounds']}: "
            "run it anew in another directory"
        )


def _start(record: Record, rounds: int) -> Found | None:
    """Return the checkpoint to continue from.

    A finished run needs none, and is not undone for the sake of an older one.
    """
    if record.sums is None and not _complete(record, rounds):
        raise InputError(
            f"{record.path / SUMS} is missing: runs of earlier versions of Amity have none and cannot be continued by "
            "this one: finish it with that version, or --force runs it anew"
        )
    _ = record.manifest, record.weights  # what is damaged shows now, not after the last round
    try:
        found = None if record.sums is None else find_checkpoint(record.path)
    except InputError:
        if not _complete(record, rounds):
            raise
        return None
    if found and found.note and _complete(record, rounds):
        return None
    if found and (found.round > len(record.lines) or _check_of(record, found.round) != found.check):
        raise DamagedFile(f"{found.folder} is not of the rounds in {record.path / LINES}: --force runs it anew")
    return found


def _check_of(record: Record, round: int) -> str | None:
    check = record.checks[round - 1]
    return None if check is None else check.lines


def _complete(record: Record, rounds: int) -> bool:
    done = record.summary is not None and len(record.lines) >= rounds
    return done and not (record.path / PART).exists() and (record.has_models or record.models_elsewhere)


def _results_trouble(record: Record) -> DamagedFile | None:
    """Return what is wrong with the results of a finished run, as far as its checksums know."""
    if record.sums is None:
        return None
    if not record.has_models and not record.models_elsewhere:
        return DamagedFile(f"{record.path / MODELS} is not complete")
    try:
        for name in record.sums.files:
            record.sums.whole(name)
    except DamagedFile as error:
        return error
    return None


def _kept_without(record: Record, rounds: int) -> int:
    """Return the rounds that stay where there is no checkpoint: all of a finished run, else none.

    Refuse where results would be lost.
    """
    if record.summary is None:
        return 0
    if _complete(record, rounds):
        return len(record.lines)
    raise InputError(f"{record.path} has results, but no checkpoint to continue from: --force runs it anew")
