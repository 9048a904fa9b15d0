"""Data sets from their official addresses. A file appears under its name when it is whole and verified, not before."""

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
from amity.data.files import BLOCK, File, digest_of

Notify = Callable[[str, int, int | None], None]
"""(address, bytes so far, bytes in all where that is known)."""

TIMEOUT = 20.0
"""Seconds without a byte after which an address counts as unreachable."""


def fetch(wanted: Sequence[File], folder: Path, notify: Notify | None = None) -> list[Path]:
    """Fetch files into a folder. Each is tried at all its addresses; the error says what happened at each."""
    if not wanted:
        return []
    if os.environ.get("AMITY_OFFLINE", "0") not in ("", "0"):
        raise InputError("AMITY_OFFLINE forbids to fetch")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error.strerror or error})") from error
    return [_first(file, folder, notify) for file in wanted]


def _first(file: File, folder: Path, notify: Notify | None) -> Path:
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
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        error = error.reason if isinstance(error.reason, Exception) else error
    if isinstance(error, TimeoutError):
        return f"no answer in {TIMEOUT:g} s"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0]
