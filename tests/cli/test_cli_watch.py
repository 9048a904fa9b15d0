"""`amity watch`, and --watch beside a run."""

from __future__ import annotations

import http.client
import re
import socket
from pathlib import Path

import pytest
from cli.commands import Amity, refused, with_tiny, worked


def test_refusals_are_one_line(amity: Amity, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(amity("watch", "file"), "watch needs directories, got the file file")
    refused(amity("watch", "file/run"), "watch needs directories, got 'file/run' (Not a directory)")  # it never will be
    refused(amity("watch", ".", "--port", "70000"), "--port needs a number from 0 to 65535, got 70000")
    refused(amity("watch", ".", "--host", "no such host"), "--host needs an address of this machine")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(amity("watch", ".", "--port", str(port)), f"port {port} is in use")


def test_the_address_is_printed_and_ctrl_c_ends_it(amity: Amity, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[int] = []

    def interrupted() -> None:
        answers.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr("amity.cli.watch._wait", interrupted)
    said = amity("watch", "later", "--token")
    assert answers and re.search(r"watching later: http://127\.0\.0\.1:\d+/\?token=\S{32}\n", said.out)
    assert said.code == 130 and said.err == ""


def test_a_run_is_served_while_it_goes_on(amity: Amity) -> None:
    said = amity(*with_tiny("run fedavg --out run --watch"))
    worked(said)
    address = re.search(r"live page: http://127\.0\.0\.1:(\d+)/", said.err)
    assert address is not None
    connection = http.client.HTTPConnection("127.0.0.1", int(address[1]), timeout=5)
    with pytest.raises(OSError):  # it has ended with the run
        connection.request("GET", "/")
