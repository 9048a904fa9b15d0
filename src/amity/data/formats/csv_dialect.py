"""How a csv file is written: its encoding, and what stands between cells. Both are recognised from the file itself.

UTF-8 with or without a mark, UTF-16 with one, else Windows-1252, which most programs mean by "csv" in western Europe.
Cells are divided by whichever of comma, semicolon, tab and | the header has most of. Where it is not the comma, 1,5 is
a number.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from amity.contract import InputError
from amity.data.formats.content import BLOCK, unreadable

if TYPE_CHECKING:
    from _csv import Reader

_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "|"}
_HEADER = 2**22  # characters in which a header must end


class Dialect(NamedTuple):
    """The way in which one file is written."""

    encoding: str
    divider: str

    @property
    def decimal_comma(self) -> bool:
        """True if 1,5 is a number, for commas do not divide cells."""
        return self.divider != ","

    @property
    def words(self) -> str:
        """What is not usual about it; empty for UTF-8 with commas."""
        told = [] if self.divider == "," else [f"{_NAMES[self.divider]} between cells"]
        if self.encoding == "cp1252":
            told.append("no UTF-8, read as Windows-1252: look whether names and words with accents are right")
        elif self.encoding != "utf-8-sig":
            told.append(self.encoding.upper())
        return "; ".join(told)


def dialect_of(path: Path) -> Dialect:
    """Recognise how a file is written."""
    encoding = _encoding(path)
    try:
        with path.open(newline="", encoding=encoding) as stream:
            header = stream.readline(_HEADER)
    except UnicodeDecodeError as error:
        raise not_text(path, error) from error
    return Dialect(encoding, _divider(header))


def _encoding(path: Path) -> str:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
            if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                return "utf-16"
            decoder.decode(start)
            while block := stream.read(BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "cp1252"
    except OSError as error:
        raise unreadable(path, error) from error
    return "utf-8-sig"


def _divider(header: str) -> str:
    outside = "".join(header.split('"')[::2])  # what stands in quotes does not divide
    return max(_NAMES, key=outside.count)  # the first one, the comma, where there is none


@contextmanager
def rows_of(path: Path, dialect: Dialect) -> Iterator[Reader]:
    """Open a csv file and give its rows; errors on the way name the file."""
    try:
        with path.open(newline="", encoding=dialect.encoding) as stream:
            yield csv.reader(stream, strict=True, delimiter=dialect.divider)
    except csv.Error as error:
        raise InputError(f"{path} must be a csv file ({error}): save it as one") from error
    except UnicodeDecodeError as error:
        raise not_text(path, error) from error
    except OSError as error:
        raise unreadable(path, error) from error


def not_text(path: Path, error: UnicodeDecodeError) -> InputError:
    """Return the error for a file that is no text."""
    reason = "it is no text in Windows-1252 either" if error.encoding == "charmap" else error.reason
    return InputError(f"{path} must be a csv file in UTF-8 ({reason}): save it as one")
