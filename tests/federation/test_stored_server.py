"""What a server keeps of a run: whole after any crash, and never taken for something else."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from amity.errors import DamagedFile
from amity.federation import safe_files
from amity.federation.plan import Member
from amity.federation.reports import Progress, Round, Settled
from amity.federation.stored_server import Roster, StoredServer

ASH, BIRCH = Member("ash", 12, (1, 8, 8), 10, True, None, "abc"), Member("birch", 9, (1, 8, 8), 10)


def report(number: int, **changes: Any) -> Round:
    server = {"params": torch.full((4,), float(number)), "count": torch.tensor(number), "empty": torch.zeros(0)}
    progress = Progress(
        number, server, {0: Settled(number, "accepted"), 1: Settled(1, "lost")}, frozenset({2}), frozenset({0})
    )
    base = Round(
        round=number,
        scores=None,
        took_part=[0],
        dropped={1: "it is away"},
        epochs={0: 2},
        bytes_up=16,
        bytes_down=32,
        bytes_eval=0,
        seconds={"train": 1.5},
        weights=None,
        progress=progress,
        warnings=["a remark"],
    )
    return base._replace(**changes)


def same(one: Round, other: Round) -> None:
    assert one._replace(progress=None, weights=None) == other._replace(progress=None, weights=None)  # type: ignore[arg-type]
    assert one.progress._replace(server={}) == other.progress._replace(server={})
    mine, theirs = one.progress.server, other.progress.server
    assert mine.keys() == theirs.keys() and all(torch.equal(mine[key], theirs[key]) for key in mine)
    assert all(mine[key].dtype == theirs[key].dtype for key in mine)
    assert (one.weights is None) == (other.weights is None)
    if one.weights is not None and other.weights is not None:
        assert torch.equal(one.weights.isnan(), other.weights.isnan())
        assert torch.equal(one.weights.nan_to_num(), other.weights.nan_to_num())


def test_a_round_comes_back_as_it_was(tmp_path: Path) -> None:
    stored = StoredServer(tmp_path / "server", "trial")
    assert stored.load() is None and stored.roster() == Roster((), ())
    weights = torch.tensor([[0.5, torch.nan], [0.25, 0.75]], dtype=torch.float64)
    for number in (1, 2, 3):
        stored.save(report(number, weights=weights if number == 3 else None), 3)
    found = StoredServer(tmp_path / "server", "trial").load()
    assert found is not None and found.note is None and found.clients == 3
    same(found.report, report(3, weights=weights))
    assert (tmp_path / "server").stat().st_mode & 0o777 == 0o700


def test_the_roster_comes_back_as_it_was(tmp_path: Path) -> None:
    stored = StoredServer(tmp_path, "trial")
    for roster in (Roster((ASH,), ()), Roster((ASH,), (BIRCH,))):
        stored.save_roster(roster)
        assert StoredServer(tmp_path, "trial").roster() == roster
    assert roster.members == (ASH, BIRCH)
    for text in ("{", "[]", '{"founders": [{"name": 1}], "joined": []}'):
        (tmp_path / "roster.json").write_text(text)
        with pytest.raises(DamagedFile, match=r"roster.json cannot be read .*: bring back a copy"):
            stored.roster()


@pytest.mark.parametrize("name", ["state.safetensors", "round.json"])
@pytest.mark.parametrize("harm", ["changed", "cut", "gone", "nested"])
def test_where_the_newest_is_damaged_the_one_before_counts(name: str, harm: str, tmp_path: Path) -> None:
    stored = StoredServer(tmp_path, "trial")
    stored.save(report(1), 2)
    stored.save(report(2), 3)
    file = tmp_path / "current" / name
    content = bytearray(file.read_bytes())
    content[-9] ^= 0x55
    file.unlink()
    if harm != "gone":
        file.write_bytes({"changed": bytes(content), "nested": b"[" * 100_000}.get(harm, bytes(content[:-5])))
    found = stored.load()
    assert found is not None and found.clients == 2 and "went on from round 1, saved before it" in (found.note or "")
    same(found.report, report(1))
    shutil.rmtree(tmp_path / "old")
    with pytest.raises(DamagedFile, match="no older one is whole: bring back a copy"):
        stored.load()


def test_the_round_of_another_run_is_not_gone_on_from(tmp_path: Path) -> None:
    StoredServer(tmp_path, "another").save(report(1), 2)
    with pytest.raises(DamagedFile, match="is of run 'another', not of 'trial'"):
        StoredServer(tmp_path, "trial").load()
    facts = json.loads((tmp_path / "current" / "round.json").read_text())
    assert facts["run"] == "another"


class Struck(BaseException):
    """The end of the process."""


def test_a_crash_at_any_step_leaves_the_old_round_or_the_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rename and every wait for the disk is a place where it may come."""
    seen, step = set[int](), 0
    while True:
        folder = tmp_path / str(step)
        stored = StoredServer(folder, "trial")
        stored.save(report(1), 2)
        stored.save(report(2), 2)
        left = [step]

        def strike(real: Any, left: list[int] = left) -> Any:
            def struck(*given: Any, **named: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    raise Struck
                return real(*given, **named)

            return struck

        ended = False
        with monkeypatch.context() as patch:
            for place, name in (
                (os, "fsync"),
                (os, "rename"),
                (os, "replace"),
                (shutil, "rmtree"),
                (safe_files, "sync"),
            ):
                patch.setattr(place, name, strike(getattr(place, name)))
            try:
                stored.save(report(3), 2)
                ended = True
            except Struck:
                pass
        found = StoredServer(folder, "trial").load()
        assert found is not None and found.note is None and found.report.round in (2, 3), step
        same(found.report, report(found.report.round))
        seen.add(found.report.round)
        stored.save(report(4), 2)  # and it goes on
        again = stored.load()
        assert again is not None and again.report.round == 4
        if ended:
            break
        step += 1
    assert seen == {2, 3} and step > 5
