"""`amity advise` on the command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from cli.commands import Amity, clinics, refused, with_tiny, worked


def test_it_ends_with_a_command_that_runs(amity: Amity) -> None:
    said = amity(*with_tiny("advise --per-silo 24 --probe-rounds 1 --parts 1"))
    worked(said)
    assert "3 silos of synthetic, dealt; 24 to 24 training examples each" in said.out
    assert "Test data were not looked at." in said.out and said.err.count("part 1 of 1: ") == 3
    words = shlex.split(said.out.splitlines()[-1])
    assert words[:2] == ["amity", "run"] and "--per-silo" in words
    worked(amity(*words[1:], "--workers", "1", "--out", "mine"))
    assert Path("mine/summary.json").exists()


def test_silos_of_ones_own_and_json(amity: Amity, tmp_path: Path) -> None:
    clinics(tmp_path / "own silos")
    said = amity("advise", "--data", "folder:own silos", "--probe-rounds", "1", "--parts", "1", "--json")
    worked(said)
    told = json.loads(said.out)
    assert told["join"] in ("yes", "some", "level", "no") and len(told["silos"]) == 3
    assert told["federation"]["natural"] and "'folder:own silos'" in told["command"]


def test_what_is_wrong_is_one_line(amity: Amity) -> None:
    refused(amity(*with_tiny("advise --parts 9")), "folds from 1 to 4")
    refused(amity(*with_tiny("advise --per-silo 2")), "at least 4 training examples")
    refused(amity("advise", "--data", "nowhere"), "nowhere")
