"""Fetching data sets from their official addresses. A file gets its name when it is whole and verified, not before."""

from __future__ import annotations

import http.client
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from amity.contract import InputError
from amity.data.formats.content import BLOCK, digest_of
from amity.data.sets import files
from amity.data.sets.entry import SourceEntry
from amity.data.sets.files import File, Found

Notify = Callable[[str, int, int | None], None]
"""Called with the address, the bytes so far, and the bytes in all where that number is known."""

TIMEOUT = 20.0
"""Seconds without a byte after which an address counts as unreachable."""


def fetch(wanted: Sequence[File], folder: Path, notify: Notify | None = None) -> list[Path]:
    """Fetch files into a folder and return their paths. Each is tried at all its addresses; the error tells of each."""
    if not wanted:
        return []
    if os.environ.get("AMITY_OFFLINE", "0") not in ("", "0"):
        raise InputError("AMITY_OFFLINE forbids to fetch")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error.strerror or error})") from error
    return [_first(file, folder, notify) for file in wanted]


def find_or_fetch(entry: SourceEntry, data_dir: str | Path | None, notify: Notify | None = None) -> Found:
    """Return the files of a data set, fetched if they are not there; the error names them and where they belong."""
    if (found := entry.find(data_dir)) is not None:
        return found
    official = entry.official
    assert official is not None
    roots = files.search_path(data_dir)
    absent = [file.name for file in files.missing(official.layouts[0], official.folders, roots)]
    try:
        fetch_into(entry, data_dir, notify)
    except InputError as error:
        raise InputError(
            f"{entry.name} needs {', '.join(absent)}, not found under {' or '.join(official.folders)} in any of "
            f"{', '.join(map(str, roots))}, and {error.__cause__}: put them into {official.folders[0]} in one of "
            f"these, or set AMITY_DATA to the directory that holds {official.folders[0]}"
        ) from error
    found = entry.find(data_dir)
    assert found is not None  # whatever was missing has come
    return found


def fetch_into(entry: SourceEntry, data_dir: str | Path | None, notify: Notify | None = None) -> list[Path]:
    """Fetch the official files that are missing or damaged in `data_dir`, and return their paths.

    Without a directory, fetch those that are missing or damaged everywhere, into the user cache.
    """
    if entry.official is None:
        return []
    files.check_named(None)
    roots = [files.expanded(data_dir)] if data_dir else files.search_path(None)
    layout, folders = entry.official.layouts[0], entry.official.folders
    wanted = files.missing(layout, folders, roots) + files.damaged(layout, folders, roots)
    place = roots[-1] / folders[0]
    if unoffered := [file.name for file in wanted if not file.urls]:
        names = ", ".join(unoffered)
        reason = InputError(f"no address offers it in this form (the data in another form: {entry.official.home})")
        raise InputError(f"{entry.name} needs {names}, and {reason}: put {names} into {place} yourself") from reason
    try:
        return fetch(wanted, place, notify)
    except InputError as error:
        names = ", ".join(file.name for file in wanted)
        raise InputError(f"{error}: try again, or put {names} into {place} yourself") from error


def _first(file: File, folder: Path, notify: Notify | None) -> Path:
    """Fetch a file from the first of its addresses that delivers it."""
    failures = []
    for url in file.urls:
        try:
            return _one(file, url, folder, notify)
        except (OSError, http.client.HTTPException, ValueError) as error:
            failures.append(f"{url}: {_reason(error)}")
    raise InputError(f"{file.name} could not be fetched from {'; '.join(failures) or 'anywhere'}")


def _one(file: File, url: str, folder: Path, notify: Notify | None) -> Path:
    request = urllib.request.Request(url, headers={"User-Agent": "amity"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        handle, part = tempfile.mkstemp(dir=folder, prefix=f".{file.name}-", suffix=".part")
        try:
            with os.fdopen(handle, "w+b") as stream:
                _copy(answer, stream, url, notify)
                if file.digest is not None:
                    stream.seek(0)
                    _expect(file.digest, digest_of(cast(BinaryIO, stream), file.digest))
            os.chmod(part, 0o644)
            os.replace(part, folder / file.name)
        except BaseException:
            os.unlink(part)
            raise
    return folder / file.name


def _copy(answer: http.client.HTTPResponse, stream: BinaryIO, url: str, notify: Notify | None) -> None:
    told = answer.headers.get("Content-Length")
    total = int(told) if told and told.isdigit() else None
    done = 0
    while block := answer.read(BLOCK):
        stream.write(block)
        done += len(block)
        if notify is not None:
            notify(url, done, total)
    if total is not None and done != total:
        raise ConnectionError(f"the connection ended after {done:,} of {total:,} bytes")


def _expect(digest: str, found: str) -> None:
    if found != digest:
        kind, _, value = digest.partition(":")
        raise ValueError(f"the content is not the official one ({kind} {value}), got {found.partition(':')[2]}")


def _reason(error: Exception) -> str:
    """Return what went wrong at an address, in one line."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        error = error.reason if isinstance(error.reason, Exception) else error
    if isinstance(error, TimeoutError):
        return f"no answer in {TIMEOUT:g} s"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0]
