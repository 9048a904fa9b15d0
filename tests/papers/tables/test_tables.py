"""Tables as files, in Markdown and CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from papers.made_up import SEVERAL, results

from amity.papers import tables
from amity.papers.tables import scores


def test_files_are_written_and_nothing_where_nothing_is_recorded(tmp_path: Path) -> None:
    (output, *_) = SEVERAL.experiment.outputs
    written = tables.write(output, SEVERAL, tmp_path)
    assert sorted(path.name for path in written) == ["made-up.csv", "made-up.md"]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "made-up.csv").read_text())))
    assert [row["row"] for row in rows] == ["good", "bad", "good"] and list(rows[0]) == list(scores.CSV_COLUMNS)
    assert tables.write(output, results({}), tmp_path / "none") == []
    assert not (tmp_path / "none").exists()
