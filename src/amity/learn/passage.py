"""A file between Python and a library that reads and writes files alone."""

from __future__ import annotations

import os
import tempfile
from typing import Self


class Passage:
    """A file that nobody else sees: in memory where the system has such files, else one that its owner alone may read.

    >>> with Passage(b"some bytes") as file:
    ...     file.content()
    b'some bytes'
    """

    def __init__(self, content: bytes = b"") -> None:
        self._content = content

    def __enter__(self) -> Self:
        if hasattr(os, "memfd_create"):
            self._handle = os.memfd_create("amity")
            self.name = f"/proc/self/fd/{self._handle}"
        else:
            self._handle, self.name = tempfile.mkstemp(prefix="amity-")
        with os.fdopen(os.dup(self._handle), "wb") as file:
            file.write(self._content)
        return self

    def content(self) -> bytes:
        with open(self.name, "rb") as file:
            return file.read()

    def __exit__(self, *error: object) -> None:
        os.close(self._handle)
        if not self.name.startswith("/proc"):
            os.unlink(self.name)
