"""The numbers that are taken from an outcome."""

from __future__ import annotations

from papers.round_by_round import COLLAPSED, DIVERGES, plus, run


def test_when_a_run_diverged_is_read_off_who_took_part_if_its_record_does_not_say() -> None:
    old = run([plus(0)] * 4, warnings=[DIVERGES])
    old.content["rounds"]["took_part"][2:] = [3, 0]
    assert old.diverged == "diverged in round 3"
    sampled = run([plus(0)] * 4, warnings=[DIVERGES], resolved={"drop": 0.5})
    assert sampled.diverged == "diverged" and run([plus(0)] * 4, warnings=[COLLAPSED]).diverged == ""
