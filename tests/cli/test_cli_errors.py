"""Errors that are raised inside a command: those on purpose are one line and exit code 2, no other is hidden."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest
from cli.commands import TINY, Amity, Said, refused

from amity import errors
from amity.cli import running


@pytest.mark.parametrize(
    "error",
    [
        errors.AmityError("one thing"),
        errors.DamagedFile("one thing"),
        errors.LostWorker("one thing"),
        errors.RefusedUpload("one thing"),
        errors.OutOfMemory("one thing"),
        errors.DiskFull("one\nthing"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_error_on_purpose_is_one_line(
    amity: Amity, error: errors.AmityError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "run_all", raising(error))
    assert amity("run", "separate", *TINY) == Said(2, "", "amity: one thing\n")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_line_wherever_it_is_met(amity: Amity, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run_all", raising(OSError(number, os.strerror(number), "a/rounds.jsonl")))
    refused(amity("run", "separate", *TINY), f"there is no room to write ({os.strerror(number)}): make some, or write")


def test_other_failures_of_the_system_are_not_hidden(amity: Amity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run_all", raising(BlockingIOError(errno.EAGAIN, "again")))
    with pytest.raises(BlockingIOError):
        amity("run", "separate", *TINY)


def raising(error: Exception) -> Callable[..., None]:
    """Return a stand-in for a run, which ends with this error."""

    def run_all(*plan: object, **how: object) -> None:
        raise error

    return run_all
