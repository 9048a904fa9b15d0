"""The file of an outcome: its declared keys are those that are written, checked and recorded in experiments/results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from papers.synthetic import outcome

from amity.papers import spec
from amity.papers.outcome.content import (
    REQUIRED_KEYS,
    SHAPES,
    OutcomeContent,
    RecordedRound,
    ResolvedOptions,
    RoundValues,
)
from amity.record.shapes import fits


def recorded() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every outcome that is recorded in the repository, with the name of its file."""
    for path in sorted((spec.home() / "results" / "runs").glob("*.json")):
        yield path.name, json.loads(path.read_text())


def test_a_file_is_checked_for_the_keys_that_are_declared() -> None:
    assert set(REQUIRED_KEYS) | {"asked"} == OutcomeContent.__required_keys__
    assert {name.lstrip("?") for name in SHAPES} <= set(OutcomeContent.__annotations__)


def test_every_recorded_outcome_is_as_declared() -> None:
    for name, content in recorded():
        assert OutcomeContent.__required_keys__ <= set(content) <= set(OutcomeContent.__annotations__), name
        assert ResolvedOptions.__required_keys__ <= set(content["resolved"]) <= set(ResolvedOptions.__annotations__), (
            name
        )
        assert set(content["rounds"]) == set(RoundValues.__annotations__), name
        for key in ("best", "last"):
            assert set(content[key]) == set(RecordedRound.__annotations__), name
        assert fits(content, SHAPES), name


def test_outcomes_that_tests_make_up_are_as_declared(tmp_path: Path) -> None:
    content = outcome(tmp_path / "it.json", groups=(0, 1) * 4).content
    assert fits(content, SHAPES) and OutcomeContent.__required_keys__ <= set(content)


def test_no_record_is_older_than_the_code() -> None:
    """Defaults are not part of a run's name: whoever changes one has to run again what was recorded with the old."""
    from amity.methods import build, settings_of

    for name, content in recorded():
        asked = content["asked"]
        now = settings_of(build(asked["method"], asked.get("set", {})))
        assert content["resolved"]["set"] == json.loads(json.dumps(now)), name
