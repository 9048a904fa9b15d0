"""Files between Python and a library."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amity.learn.passage import Passage


@pytest.mark.parametrize("in_memory", [True, False])
def test_what_is_written_is_read_and_nothing_stays(in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    with Passage(b"before") as file:
        assert file.content() == b"before" == Path(file.name).read_bytes()
        Path(file.name).write_bytes(b"after")
        assert file.content() == b"after"
        assert in_memory or Path(file.name).stat().st_mode & 0o077 == 0
    assert not Path(file.name).exists()
