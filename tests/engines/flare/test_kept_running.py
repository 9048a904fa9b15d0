"""A process that is kept running, and what is said when it ends."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from amity.engines.flare.kept_running import KeptRunning, reason
from amity.errors import InputError


def looked(process: KeptRunning, until: int, said: list[str]) -> None:
    """Look after a process until so much was said."""
    end = time.monotonic() + 30
    while len(said) < until and time.monotonic() < end:
        process.look()
        time.sleep(0.05)


def kept(tmp_path: Path, code: str) -> tuple[KeptRunning, list[str]]:
    said: list[str] = []
    return KeptRunning([sys.executable, "-c", code], os.environ, tmp_path / "log", said.append), said


def test_it_is_started_again_and_says_why_it_ended(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("words of another time\n")
    process, said = kept(tmp_path, "import sys; sys.exit('a.b.SomeError: no room')")
    looked(process, 2, said)
    process.end()
    assert said[0] == "the network process has ended (no room): it is started again in 1 s"
    assert said[1].endswith("in 2 s"), "it waits longer each time"


def test_one_that_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("words of another time\n")
    process, said = kept(tmp_path, "import os; os._exit(7)")
    looked(process, 1, said)
    process.end()
    assert "without a word" in said[0]


def test_one_that_refuses_to_start_is_not_tried_again(tmp_path: Path) -> None:
    process, said = kept(tmp_path, "import sys; print('amity: mend this', file=sys.stderr); sys.exit(2)")
    with pytest.raises(InputError, match="^mend this$"):
        looked(process, 1, said)


def test_it_ends_with_us(tmp_path: Path) -> None:
    process, said = kept(tmp_path, "import time; time.sleep(60)")
    process.look()
    assert process.pid is not None
    pid = process.pid
    process.end()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not said


def test_a_silo_that_is_no_member_any_more() -> None:
    line = "nvflare.apis.fl_exception.FLCommunicationError: error:client_registration Client 'east' is disabled"
    assert "no member any more" in reason(line)
