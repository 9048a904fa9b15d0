"""The facts that are known of a data set before it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from amity.contract import InputError
from amity.data.division import Division
from amity.data.sets import files
from amity.data.sets.files import Found, Layout
from amity.data.source import Source


@dataclass(frozen=True)
class Official:
    """A data set as it is published. Only the first layout is fetched; the others are accepted where they are found."""

    folders: tuple[str, ...]  # where its files may lie below a data directory; fetched ones go into the first
    layouts: tuple[Layout, ...]
    train: int  # examples; all of them where test is 0
    test: int  # 0: no division into train and test is published
    licence: str
    home: str = ""  # the publisher's page, where the files are not offered as they are read here
    cite: str = ""


Build = Callable[["SourceEntry", Mapping[str, Tensor], Division], Source]
"""Makes the data set from its entry, its decoded arrays (none without files) and the way to hold out a test part."""


@dataclass(frozen=True)
class SourceEntry:
    """A row of the table of data sets."""

    name: str
    title: str
    description: str
    classes: int  # 0: labels are quantities
    shape: tuple[int, ...]  # of one example
    build: Build
    official: Official | None = None  # None: it needs no files
    natural: bool = False  # it comes as silos
    package: str = ""  # the package that brings it; empty for Amity's own

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that are fetched, or that a user has to put in place."""
        return tuple(file.name for file in self.official.layouts[0].files) if self.official else ()

    @property
    def origin(self) -> str:
        """The place that a data set without files comes from, in a few words."""
        return f"in {self.package}" if self.package else "built in"

    def find(self, data_dir: str | Path | None = None) -> Found | None:
        """Return its files if they are all there, else None."""
        files.check_named(data_dir, variable=self.official is not None)
        if self.official is None:
            return None
        return files.find(self.official.layouts, self.official.folders, files.search_path(data_dir))

    def from_package(self, name: str, package: str) -> SourceEntry:
        """Return this entry as `package` brings it; refuse one that cannot be listed under this name."""
        if self.name != name:
            raise InputError(f"its SourceEntry must have the entry point's name, found {self.name!r}")
        if not all(isinstance(text, str) for text in (self.title, self.description)):
            raise InputError("title and description must be text")
        sizes = (self.classes, *(self.shape if isinstance(self.shape, tuple) else [None]))
        if not all(type(size) is int and size >= 0 for size in sizes):
            raise InputError(f"classes and shape must be whole numbers >= 0, found {self.classes!r} and {self.shape!r}")
        if not callable(self.build):
            raise InputError("build must be a function")
        return replace(self, package=package)
