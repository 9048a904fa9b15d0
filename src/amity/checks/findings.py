"""What a check has found, in words for whoever has to mend it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from amity.errors import AmityError

Grade = Literal["PASS", "WARN", "FAIL", "SKIP"]
"""SKIP: not checked, since something that it depends on has failed."""

LONGEST = 600  # letters of what is told

_log = logging.getLogger("amity.checks")


class Finding(NamedTuple):
    """One line of a report."""

    check: str
    grade: Grade
    found: str
    remedy: str = ""  # what to do; empty where nothing is to be done


def plain(text: str) -> str:
    """Return a text in one line of printable letters: names in certificates are written by others."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(shown.split())[:LONGEST]


_HALVES = re.compile(r"(.*): ((?:[^()]|\([^()]*\))*)", re.DOTALL)


def halves(error: str) -> tuple[str, str]:
    """Return what an error of ours says has happened, and what to do; a colon between brackets is none of its own."""
    found = _HALVES.fullmatch(error)
    return (found[1], found[2]) if found else (error, "mend it")


class Account:
    """Collects findings. One check that fails, in whatever way, does not keep others from running."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def passed(self, check: str, found: str) -> None:
        """Note that all is well."""
        self._add(check, "PASS", found)

    def warned(self, check: str, found: str, remedy: str) -> None:
        """Note what may become a problem, or is not known."""
        self._add(check, "WARN", found, remedy)

    def failed(self, check: str, found: str, remedy: str) -> None:
        """Note what keeps a run from working."""
        self._add(check, "FAIL", found, remedy)

    def skipped(self, check: str, why: str) -> None:
        """Note what could not be looked at, for something else is to be mended first."""
        self._add(check, "SKIP", f"not checked: {why}")

    def add(self, findings: Iterable[Finding]) -> None:
        """Add what was found elsewhere."""
        for one in findings:
            self._add(*one)

    def has_failed(self, check: str) -> bool:
        """True if this check has a FAIL."""
        return any(one.check == check and one.grade == "FAIL" for one in self.findings)

    @contextmanager
    def about(self, check: str) -> Iterator[None]:
        """Turn what goes wrong inside into a finding of this check."""
        try:
            yield
        except AmityError as error:
            self.refused(check, error)
        except ModuleNotFoundError as error:
            self.skipped(check, f"the package {error.name} is missing, see versions")
        except OSError as error:
            self.failed(check, _of_system(error), "check the path, and that this account may read it")
        except Exception as error:
            _log.error("the check %r itself failed", check, exc_info=error)
            words = f"it could not be checked ({type(error).__name__})"
            self.failed(check, words, "look whether a file is damaged; --log-level error says more")

    def refused(self, check: str, error: AmityError) -> None:
        """Note an error of ours, whose text is: the rule and what was received: what to do."""
        self.failed(check, *halves(str(error)))

    def _add(self, check: str, grade: Grade, found: str, remedy: str = "") -> None:
        self.findings.append(Finding(check, grade, plain(found), plain(remedy)))


def _of_system(error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    return f"{error.filename} cannot be read ({reason})" if error.filename else reason
