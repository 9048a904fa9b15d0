"""Tables of things that users choose by name, which other packages can add to by entry points.

A package that is installed beside Amity names what it brings in its own metadata:

    [project.entry-points."amity.methods"]
    nearest = "clinics_methods:Nearest"       # a dataclass with a docstring, or an Entry

    [project.entry-points."amity.datasets"]
    clinics = "clinics_data:CLINICS"          # a SourceEntry

    [project.entry-points."amity.settings"]
    by-region = "clinics_data:BY_REGION"      # a SettingEntry

Nothing of such a package is imported before its name is looked up, or all names are listed. A package that cannot be
used is left out of lists, and `problems` says why in one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from typing import Protocol, Self, TypeVar

from amity.config.options import unknown
from amity.errors import InputError

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")  # as users type it: no colon, which begins options and paths


class Listed(Protocol):
    """An entry of a table that packages can add to."""

    def from_package(self, name: str, package: str) -> Self:
        """Return this entry as `package` brings it, or raise an error that says what is wrong with it."""


Entry = TypeVar("Entry", bound=Listed)


class Registry(Mapping[str, Entry]):
    """Entries by name: the built-in ones first, then those of other packages in alphabetical order."""

    def __init__(
        self,
        group: str,
        kind: type[Entry],
        what: str,
        built_in: Mapping[str, Entry],
        reserved: Iterable[str] = (),
        made: Callable[[object], object] = lambda found: found,
    ) -> None:
        """`made` makes an entry of something simpler that a package may name in its place."""
        self.group = group  # of entry points
        self.built_in = dict(built_in)
        self._kind, self._what, self._made = kind, what, made
        self._reserved = frozenset(reserved)  # names that are no entries, but mean something already

    def __getitem__(self, name: str) -> Entry:
        if name in self.built_in:
            return self.built_in[name]
        try:
            return self._from_packages(name)
        except InputError as error:
            raise KeyError(str(error)) from error

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from self._survey()[0]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def entry(self, name: str, also: Iterable[str] = ()) -> Entry:
        """Return the entry of this name, or raise an InputError that says why there is none.

        `also` are other words that would be understood in its place; the error may propose them.
        """
        if name in self.built_in:
            return self.built_in[name]
        if name in self._points():
            return self._from_packages(name)
        raise unknown(self._what, name, [*self, *also])

    def problems(self) -> list[str]:
        """Return one line for each package, and each name it brings, that cannot be used."""
        return self._survey()[1]

    def _survey(self) -> tuple[dict[str, Entry], list[str]]:
        """Load the entries of all packages, and collect the problems of those that fail."""
        loaded: dict[str, Entry] = {}
        problems = [
            f"{dist.name}: its entry points cannot be read, so that no package can bring a {self._what}: reinstall it"
            for dist in distributions()
            if not _parses(dist)
        ]
        for name in sorted(self._points()):
            try:
                loaded[name] = self._from_packages(name)
            except InputError as error:
                problems.append(str(error))
        return loaded, problems

    def _points(self) -> dict[str, list[EntryPoint]]:
        """Return the entry points of all packages by name; none if the metadata of a package cannot be parsed."""
        found: dict[str, list[EntryPoint]] = {}
        try:
            points = entry_points(group=self.group)
        except Exception:  # importlib reads the files of all packages at once, and gives up on all together
            return {}
        for point in points:
            found.setdefault(point.name, []).append(point)
        return found

    def _from_packages(self, name: str) -> Entry:
        """Load the entry of this name; raises an InputError if no package, or more than one, brings it."""
        points = self._points().get(name, [])
        if not points:
            raise unknown(self._what, name, self.built_in)
        packages = " and ".join(sorted(map(_package, points)))
        called = f"the {self._what} {name!r}"
        if name in self.built_in or name in self._reserved:
            raise InputError(f"{packages}: {called} is Amity's own and cannot be replaced: choose another name for it")
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{packages}: a {self._what} must be named by small letters, digits, '-', '_' and '.', got {name!r}: "
                "choose another name for it"
            )
        if len(points) > 1:
            raise InputError(f"{packages}: {called} is brought more than once, none is used: uninstall one of them")
        return self._loaded(points[0])

    def _loaded(self, point: EntryPoint) -> Entry:
        """Import an entry; whatever goes wrong in code of other people becomes one line that names their package."""
        try:
            entry = self._made(point.load())
            if not isinstance(entry, self._kind):
                raise InputError(f"{point.value} must be a {self._kind.__name__}, found {type(entry).__name__}")
            return entry.from_package(point.name, _package(point))
        except (Exception, SystemExit) as error:
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            reason = (str(error).splitlines() or ["no reason given"])[0]
            raise InputError(
                f"{_package(point)}: the {self._what} {point.name!r} cannot be loaded ({kind}{reason}): "
                "update the package, or uninstall it"
            ) from error


def _parses(dist: Distribution) -> bool:
    """True if the entry points of a package can be read, be it that it has none."""
    try:
        _ = dist.entry_points
    except Exception:
        return False
    return True


def _package(point: EntryPoint) -> str:
    """Return the name of the package that brings an entry point, or of its module where the package has no name."""
    return (point.dist.name if point.dist is not None else None) or point.module
