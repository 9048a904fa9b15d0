"""The server of the live page, over real connections."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from record.rounds_by_hand import CONFIG, FACTS, add_round, record_rounds
from watch.watched_folders import EVIL, begin, finish

from amity.errors import InputError
from amity.record import Recorder
from amity.watch import pages
from amity.watch.beside import watched_beside
from amity.watch.serving import Address, serving


def get(address: Address, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", address.port, timeout=20)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()


@contextmanager
def following(address: Address) -> Iterator[Iterator[tuple[str, Any]]]:
    """Events as a browser hears them."""
    with closing(http.client.HTTPConnection("127.0.0.1", address.port, timeout=20)) as connection:
        connection.request("GET", "/live")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.getheader("content-type", "").startswith("text/event-stream")

        def events() -> Iterator[tuple[str, Any]]:
            kind = "message"
            while raw := answer.readline():
                key, _, value = raw.decode().rstrip("\n").partition(": ")
                if key == "event":
                    kind = value
                elif key == "data":
                    yield kind, json.loads(value)
                    kind = "message"

        yield events()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    path = tmp_path_factory.mktemp("served") / "run"
    recorder = Recorder.create(path, CONFIG, ["north", EVIL, ".."], FACTS)
    add_round(recorder, 1)
    with serving([path]) as address:
        yield address


def test_the_page_and_its_files(address: Address) -> None:
    status, headers, body = get(address, "/")
    assert status == 200 and headers["content-type"].startswith("text/html")
    assert b"<script>" not in body and b"onerror" not in body  # files alone, as the policy wants it
    for line in body.decode().split('"'):
        if line.startswith("/files/"):
            found, kind, content = get(address, line)
            assert found == 200 and content
            assert kind["content-type"].startswith(("text/css", "text/javascript"))
    assert b"/files/follow.js" in body
    assert "server" not in headers


def test_the_view_holds_names_as_they_are(address: Address) -> None:
    status, headers, body = get(address, "/view")
    content = json.loads(body)
    assert status == 200 and headers["content-type"] == "application/json"
    assert EVIL in [silo["name"] for silo in content["view"]["silos"]]
    assert content["view"]["live"]["runs"][0]["phase"] == "running"


@pytest.mark.parametrize(
    "path",
    [
        "/files/../../../../../../etc/passwd",
        "/files/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/files//etc/passwd",
        "/files/..%5c..%5cetc",
        "/files/script/../../guard.py",
        "/etc/passwd",
        "/view/../../etc/passwd",
        "/files/",
        "//etc/passwd",
        "/files/follow.js%00",
    ],
)
def test_no_path_of_a_question_is_opened(address: Address, path: str) -> None:
    status, headers, body = get(address, path)
    assert status == 404 and b"root:" not in body
    assert "default-src 'none'" in headers["content-security-policy"]


def test_strange_questions(address: Address) -> None:
    assert get(address, "/", Host="evil.example")[0] == 421
    assert get(address, "/view", "POST")[0] == 405
    assert get(address, "/", "HEAD")[2] == b""
    with socket.create_connection(("127.0.0.1", address.port), timeout=20) as raw:
        raw.sendall(b"no question at all\r\n\r\n")
        assert b"400" in raw.recv(100)
    assert get(address, "/")[0] == 200


def test_pages_are_sent_what_changes_and_the_end(tmp_path: Path) -> None:
    recorder = begin(tmp_path / "run")
    with serving([tmp_path / "run"]) as address, following(address) as events:
        kind, first = next(events)
        assert kind == "message" and first["live"]["runs"][0]["round"] == 0
        record_rounds(recorder, [1])
        kind, second = next(events)
        while second["live"]["runs"][0]["round"] < 1:
            kind, second = next(events)
        assert second["number"] > first["number"]
        _, _, body = get(address, "/view")
        assert json.loads(body)["number"] == second["number"]


def test_before_it_closes_every_page_is_sent_how_things_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PARTING", 0.1)
    recorder = begin(tmp_path / "run")
    server = serving([tmp_path / "run"])
    with server as address:
        page = following(address)
        events = page.__enter__()
        next(events)
        finish(recorder, [1, 2, 3, 4])
    heard = list(events)
    page.__exit__(None, None, None)
    assert heard[-1][0] == "over" and heard[-2][1]["live"]["runs"][0]["phase"] == "ended"
    with pytest.raises(OSError):
        get(address, "/")


def test_nothing_new_is_still_sent_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "AT_LEAST", 0.0)
    with serving([tmp_path / "later"]) as address, following(address) as events:
        _, first = next(events)
        _, second = next(events)
    assert first["number"] == second["number"] and first["live"]["now"] < second["live"]["now"]


def test_an_open_server_needs_its_token(tmp_path: Path) -> None:
    with serving([tmp_path], host="0.0.0.0") as address:
        assert address.token and address.token in address.url
        assert get(address, "/")[0] == get(address, "/live")[0] == get(address, "/files/follow.js")[0] == 403
        status, headers, _ = get(address, f"/?token={address.token}")
        assert status == 303
        cookie = headers["set-cookie"].partition(";")[0]
        assert get(address, "/", Cookie=cookie)[0] == 200
        assert get(address, "/view", Cookie=cookie)[0] == 200
    with serving([tmp_path], with_token=True) as address:
        assert address.host == "127.0.0.1" and get(address, "/view")[0] == 403


def test_ports_and_hosts_that_cannot_be_had(tmp_path: Path) -> None:
    with serving([tmp_path]) as address:
        with pytest.raises(InputError, match=f"port {address.port} is in use: give another --port"):
            with serving([tmp_path], port=address.port):
                raise AssertionError
    for port in (-1, 65536):
        with pytest.raises(InputError, match="--port needs a number from 0 to 65535"):
            with serving([tmp_path], port=port):
                raise AssertionError
    for host in ("203.0.113.7", "not a host", ""):  # a documentation address, which no machine has
        with pytest.raises(InputError, match="--host needs an address of this machine"):
            with serving([tmp_path], host=host):
                raise AssertionError


def test_packages_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="needs starlette and uvicorn, not installed: pip install starlette uvicorn"):
        with serving([tmp_path]):
            raise AssertionError


def test_a_process_beside_a_run_ends_with_it(tmp_path: Path) -> None:
    recorder = begin(tmp_path / "run")
    record_rounds(recorder, [1])
    with watched_beside([tmp_path / "run"]) as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        address = Address("127.0.0.1", port, None)
        _, _, body = get(address, "/view")
        assert json.loads(body)["view"]["live"]["runs"][0]["round"] == 1
    with pytest.raises(OSError):
        get(address, "/")


def test_a_process_that_cannot_serve_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="got the file"):
        with watched_beside([tmp_path / "file"]):
            raise AssertionError
