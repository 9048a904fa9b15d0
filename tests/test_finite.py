"""Numbers that no float holds, out of files and from other machines: refused where they come in, in one line."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from cli.commands import Amity, refused
from cli.conftest import amity as amity

from amity.config.run import Run
from amity.data.schema.cells import table_of_rows
from amity.data.schema.summary import summarise
from amity.data.schema.summary_json import summary_of, summary_text
from amity.errors import InputError
from amity.federation.presence import beat_of, greeting_of, service_of
from amity.finite import is_finite
from amity.methods import build

LONG = 10**400  # JSON and TOML know it, and float() does not


def test_what_a_float_can_hold() -> None:
    for value in (0, -1, 2.5, 2**1023, -1.7e308):
        assert is_finite(value)
    for other in (LONG, -LONG, math.inf, -math.inf, math.nan, True, "1", None, [1]):
        assert not is_finite(other)


@pytest.mark.parametrize("key", ["mean", "squares"])
def test_a_summary_of_columns_with_such_a_number_is_refused(key: str) -> None:
    rows = [{"age": str(value)} for value in range(20)]
    content = json.loads(summary_text(summarise(table_of_rows(rows, ["age"]))))
    content["columns"]["age"][key] = LONG
    with pytest.raises(InputError, match="no summary of columns"):
        summary_of(json.dumps(content), 5)


def test_a_sign_of_life_with_such_a_number_is_none() -> None:
    beat = {"mark": "1" * 32, "time": 1.0, "amity": "0.1.0"}
    assert beat_of(beat) is not None and beat_of({**beat, "time": LONG}) is None
    greeting = {"time": 1.0, "amity": "0.1.0", "removed": False, "services": []}
    assert greeting_of(greeting) is not None and greeting_of({**greeting, "time": LONG}) is None
    service = {"mark": "1" * 32, "since": 1.0, "heard": 2.0, "skew": 0.5, "amity": "0.1.0"}
    assert service_of(service) is not None and service_of({**service, "skew": -LONG}) is None


def test_an_option_with_such_a_number_is_refused(amity: Amity, tmp_path: Path) -> None:
    for lines in (f"lr = {LONG}", f"[set]\nsigma = {LONG}"):
        (tmp_path / "run.toml").write_text(f'method = "fedamp"\n{lines}\n')
        refused(amity("run", "--config", "run.toml"), "a whole number has at most 19 digits")
    with pytest.raises(InputError, match="a number of at most 19 digits"):
        Run("fedamp", lr=LONG)
    with pytest.raises(InputError, match="a number of at most 19 digits"):
        build("fedamp", {"sigma": LONG})
