"""Fetching, against a server on this machine: what arrives is whole and verified, or is not there."""

import gzip
import hashlib
import http.server
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from amity.cli import app as cli
from amity.contract import InputError
from amity.data import SOURCES, load
from amity.data.sets import fetch as fetching
from amity.data.sets.fetch import fetch, fetch_into
from amity.data.sets.files import File, Layout, damaged

BODY = bytes(range(256)) * 5000
Amity = Callable[..., tuple[object, str, str]]
DIGEST = f"md5:{hashlib.md5(BODY).hexdigest()}"


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only as far as this machine."""
    monkeypatch.setenv("AMITY_OFFLINE", "0")


class Server(Protocol):
    def __call__(self, path: str, content: bytes | None = None) -> str: ...


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/hangs":
            self.server.released.wait(10)  # type: ignore[attr-defined]
            return
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/whole")
            self.end_headers()
            return
        body = self.server.files.get(self.path)  # type: ignore[attr-defined]
        if body is None:
            self.send_error(404, "Not Found")
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path == "/cut" else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    """Addresses on a server that offers BODY whole, cut, changed or moved, or never answers."""
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.files = {"/whole": BODY, "/cut": BODY, "/changed": BODY[::-1]}  # type: ignore[attr-defined]
    httpd.released = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{httpd.server_port}"

    def url(path: str, content: bytes | None = None) -> str:
        if content is not None:
            httpd.files[path] = content  # type: ignore[attr-defined]
        return address + path

    yield url
    httpd.released.set()  # type: ignore[attr-defined]
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/file"


def test_a_file_arrives_whole(tmp_path: Path, server: Server) -> None:
    heard: list[tuple[str, int, int | None]] = []
    wanted = File("a.bin", (server("/whole"),), digest=DIGEST)
    assert fetch([wanted], tmp_path / "new", lambda *news: heard.append(news)) == [tmp_path / "new" / "a.bin"]
    assert (tmp_path / "new" / "a.bin").read_bytes() == BODY
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.bin"]
    assert heard[-1] == (server("/whole"), len(BODY), len(BODY))
    assert [done for _, done, _ in heard] == sorted(done for _, done, _ in heard)


def test_redirects_are_followed(tmp_path: Path, server: Server) -> None:
    fetch([File("a.bin", (server("/moved"),), digest=DIGEST)], tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == BODY


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/cut", "ended after 640,000 of 1,280,000 bytes"),
        ("/changed", "not the official one"),
        ("/nowhere", "HTTP 404 Not Found"),
        ("/hangs", "no answer in 0.3 s"),
    ],
)
def test_what_is_not_whole_never_appears(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, path: str, reason: str
) -> None:
    if path == "/hangs":  # the others answer, however busy the machine is
        monkeypatch.setattr(fetching, "TIMEOUT", 0.3)
    with pytest.raises(InputError, match=reason) as caught:
        fetch([File("a.bin", (server(path),), digest=DIGEST)], tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert server(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_good_file_is_not_replaced_by_a_bad_one(tmp_path: Path, server: Server) -> None:
    (tmp_path / "a.bin").write_bytes(b"good")
    with pytest.raises(InputError):
        fetch([File("a.bin", (server("/changed"),), digest=DIGEST)], tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == b"good"


def test_every_address_is_tried(tmp_path: Path, server: Server, nobody: str) -> None:
    fetch([File("a.bin", (nobody, server("/changed"), server("/whole")), digest=DIGEST)], tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == BODY
    with pytest.raises(InputError) as caught:
        fetch([File("b.bin", (nobody, server("/changed")), digest=DIGEST)], tmp_path)
    assert nobody in str(caught.value) and server("/changed") in str(caught.value)


def test_an_interruption_leaves_nothing(tmp_path: Path, server: Server) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch([File("a.bin", (server("/whole"),))], tmp_path, interrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_made(tmp_path: Path, server: Server) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="cannot be made"):
        fetch([File("a.bin", (server("/whole"),))], tmp_path / "file" / "below")


HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
ROW = b"63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,%d\n"


@pytest.fixture
def heart(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The data set `heart`, offered by the server; nothing on disk."""
    entry = SOURCES["heart"]
    content = {name: ROW % 0 * 6 + ROW % 2 * 4 for name in HOSPITALS}
    files = tuple(
        File(
            f"processed.{name}.data",
            (server(f"/{name}", body),),
            digest=f"sha256:{hashlib.sha256(body).hexdigest()}",
        )
        for name, body in content.items()
    )
    assert entry.official is not None
    layout = replace(entry.official.layouts[0], files=files)
    monkeypatch.setitem(SOURCES.built_in, "heart", replace(entry, official=replace(entry.official, layouts=(layout,))))
    monkeypatch.delenv("AMITY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_data_set_that_is_not_at_hand_is_fetched_once(heart: Path) -> None:
    heard: list[str] = []
    source = load("heart", notify=lambda url, *_: heard.append(url))
    assert len(source.train.y) + len(source.test.y) == 40 and len(heard) == 4
    assert (heart / "cache/amity/heart-disease/processed.va.data").exists()
    load("heart", notify=lambda url, *_: heard.append(url))
    assert len(heard) == 4


def test_only_what_is_missing_is_fetched_and_where_it_was_asked_for(heart: Path) -> None:
    (heart / "mine").mkdir()
    load("heart", heart / "mine")
    folder = heart / "mine" / "heart-disease"
    kept = folder / "processed.va.data"
    before = kept.stat().st_mtime_ns
    (folder / "processed.cleveland.data").unlink()
    heard: list[str] = []
    load("heart", heart / "mine", notify=lambda url, *_: heard.append(url))
    assert [url.rpartition("/")[2] for url in heard] == ["cleveland"]
    assert kept.stat().st_mtime_ns == before


def test_a_damaged_file_is_fetched_again(heart: Path) -> None:
    (heart / "mine").mkdir()
    load("heart", heart / "mine")
    bad = heart / "mine" / "heart-disease" / "processed.va.data"
    whole = bad.read_bytes()
    bad.write_bytes(whole[:-5])
    assert [path.name for path in fetch_into(SOURCES["heart"], heart / "mine")] == [bad.name]
    assert bad.read_bytes() == whole
    assert fetch_into(SOURCES["heart"], heart / "mine") == []


@pytest.mark.parametrize("packed", [True, False])
def test_packed_anew_or_not_at_all_is_as_good(tmp_path: Path, packed: bool) -> None:
    """MNIST's files are known by what is inside them."""
    inside = bytes(1000)
    file = File("labels.gz", digest=DIGEST, content=f"md5:{hashlib.md5(inside).hexdigest()}")
    layout = Layout((file,), lambda paths: {})
    place = tmp_path / "mnist" / ("labels.gz" if packed else "labels")
    place.parent.mkdir()
    place.write_bytes(gzip.compress(inside, 1) if packed else inside)
    assert damaged(layout, ["mnist"], [tmp_path]) == []
    place.write_bytes(place.read_bytes()[:-9])
    assert damaged(layout, ["mnist"], [tmp_path]) == [file]


def test_offline_nothing_is_asked_for(heart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMITY_OFFLINE", "1")
    with pytest.raises(InputError, match="AMITY_OFFLINE forbids"):
        load("heart", notify=lambda *news: pytest.fail(str(news)))


def test_out_of_reach_and_absent_says_which_files_and_where(
    heart: Path, monkeypatch: pytest.MonkeyPatch, nobody: str
) -> None:
    entry = SOURCES["heart"]
    assert entry.official is not None
    layout = entry.official.layouts[0]
    unreachable = replace(layout, files=tuple(replace(file, urls=(nobody,)) for file in layout.files))
    monkeypatch.setitem(
        SOURCES.built_in, "heart", replace(entry, official=replace(entry.official, layouts=(unreachable,)))
    )
    with pytest.raises(InputError) as caught:
        load("heart")
    message = str(caught.value)
    for word in (*(f"processed.{name}.data" for name in HOSPITALS), nobody, "Connection refused", "heart-disease"):
        assert word in message
    assert "\n" not in message


@pytest.fixture
def amity(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Amity:
    """The command: exit code, what it prints and what it complains of."""

    def call(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["amity", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (ended.value.code, *capsys.readouterr())

    return call


def test_the_command_fetches_and_tells(heart: Path, monkeypatch: pytest.MonkeyPatch, amity: Amity) -> None:
    code, out, err = amity("data", "fetch", "heart", "--data-dir", "mine")
    assert code == 0 and out.startswith("heart: mine/heart-disease/processed.cleveland.data, ")
    assert [line.rpartition("/")[2] for line in err.splitlines()] == [f"{name} (0.0 MB)" for name in HOSPITALS]
    assert amity("data", "fetch", "heart", "--data-dir", "mine") == (0, "heart: complete, nothing to fetch\n", "")
    monkeypatch.setenv("AMITY_OFFLINE", "1")
    code, out, err = amity("data", "fetch", "heart")
    assert (code, out) == (2, "") and len(err.splitlines()) == 1
    for word in ("AMITY_OFFLINE", "processed.va.data", str(heart / "cache" / "amity" / "heart-disease")):
        assert word in err


def test_what_is_complete_elsewhere_is_not_fetched_again(
    heart: Path, monkeypatch: pytest.MonkeyPatch, amity: Amity
) -> None:
    amity("data", "fetch", "heart", "--data-dir", "first")
    monkeypatch.setenv("AMITY_DATA", "first")
    monkeypatch.setenv("AMITY_OFFLINE", "1")
    assert amity("data", "fetch", "heart") == (0, "heart: complete, nothing to fetch\n", "")


def test_files_that_come_before_the_fetched_ones_are_said(
    heart: Path, monkeypatch: pytest.MonkeyPatch, amity: Amity
) -> None:
    """What lies in $AMITY_DATA is what runs read, a subset or damaged, whatever was fetched into the user cache."""
    amity("data", "fetch", "heart", "--data-dir", "first")
    (heart / "first" / "heart-disease" / "processed.va.data").write_text("1,2\n")
    monkeypatch.setenv("AMITY_DATA", "first")
    code, out, _ = amity("data", "fetch", "heart")
    assert code == 0 and out.startswith(f"heart: {heart / 'cache' / 'amity' / 'heart-disease' / 'processed.va.data'}\n")
    assert f"runs read first/heart-disease first: give them --data-dir {heart / 'cache' / 'amity'}" in out
