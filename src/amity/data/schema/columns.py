"""The columns of a table: which one holds the labels, which are features, which are left out. None is guessed."""

from __future__ import annotations

import difflib
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from amity.data.schema.labels import is_number
from amity.errors import InputError, several

NAMES = ("label", "target", "y", "outcome", "class")
"""Names by which a column of labels is recognised where the user gives none, in upper or lower case."""

LONG = 100  # letters of a name that are shown
SHOWN = 5  # names or files of a longer list that are shown
_INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")  # names that pandas gives to the row numbers it saves


class Wanted(NamedTuple):
    """The user's wishes for the columns of all tables."""

    label: str | None = None  # None: the one that has one of NAMES
    drop: tuple[str, ...] = ()


class Columns(NamedTuple):
    """The roles of the columns of one table, by their place in it."""

    header: tuple[str, ...]
    label: int
    features: tuple[int, ...]

    @property
    def label_name(self) -> str:
        """The name of the column that holds the labels."""
        return self.header[self.label]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns that are features, in their order."""
        return tuple(self.header[place] for place in self.features)

    def ordered(self, like: Columns) -> Columns:
        """Return the same columns with the features in the order of another table."""
        return self._replace(features=tuple(self.header.index(name) for name in like.feature_names))


def wanted(label: str | None, drop: Sequence[str]) -> Wanted:
    """Return the user's wishes, checked as far as they can be without a table."""
    names = (drop,) if isinstance(drop, str) else tuple(drop)
    if bad := [name for name in (*names, *([] if label is None else [label])) if not isinstance(name, str)]:
        raise InputError(f"a column's name must be text, got {bad[0]!r}: give it as the header has it")
    chosen = Wanted(None if label is None else spelt(label), tuple(dict.fromkeys(map(spelt, names))))
    if chosen.label in chosen.drop:
        raise InputError(
            f"a column is the label or is dropped, got {chosen.label!r} as both: take it out of --drop-column"
        )
    return chosen


def spelt(name: str) -> str:
    """Return a name with single blanks, none at its ends, and accents composed, so that equal names compare equal."""
    return unicodedata.normalize("NFC", " ".join(name.split()))


def choose(header: Sequence[str], asked: Wanted) -> Columns:
    """Return the columns of a table with this header. Errors do not name the file, as many may have the same one."""
    names = tuple(map(spelt, header))
    if len(names) < 2:
        raise InputError(f"must have a header of two columns or more, found {len(names)}: use commas")
    dropped = set(asked.drop)
    kept = [place for place, name in enumerate(names) if name not in dropped]
    left = [names[place] for place in kept]
    if not left:
        raise InputError("must have a label and features, found none that is not dropped: drop fewer columns")
    if _is_data(left, asked.label):
        found = "a row of numbers" if all(map(is_number, left)) else repr(",".join(left[:60])[:60])
        raise InputError(f"must start with a header, found {found}: name the columns, the labels' column label")
    _check_names(names, left)
    label = kept[_label(left, asked)]
    features = tuple(place for place in kept if place != label)
    if not features:
        raise InputError(
            f"must have features beside the label {names[label]!r}, found none that is not dropped: drop fewer columns"
        )
    return Columns(names, label, features)


def _is_data(names: Sequence[str], label: str | None) -> bool:
    """True if a header looks like a row of numbers, with at most one word among them for a label.

    The numbers that tools give to columns without a name are no data: whole numbers beside a label that has a name,
    or all of them counting up from 0 or 1.
    """
    known = label if label in names else next((name for name in names if name.lower() in NAMES), None)
    words = sum(name != known and not is_number(name) for name in names)
    if known is None:
        return words <= 1 < len(names)
    if words:
        return False
    if is_number(known):
        return list(names) not in ([str(start + place) for place in range(len(names))] for start in (0, 1))
    return not all(name == known or name.isdigit() for name in names)


def _check_names(header: Sequence[str], left: Sequence[str]) -> None:
    """Refuse columns without a name, and two columns of the same name."""
    for name in left:
        if _INDEX.fullmatch(name):
            raise InputError(
                f"must name every column, found {name!r} as number {header.index(name) + 1}: save it without the "
                f"index, name the column, or {leave_out(name)}"
            )
    name, count = Counter(left).most_common(1)[0]
    if count > 1:
        times = "twice" if count == 2 else f"{count} times"
        raise InputError(f"must have different columns, found {name!r} {times}: rename one")


def _label(names: Sequence[str], asked: Wanted) -> int:
    """Return the place of the column that holds the labels."""
    if asked.label is not None:
        if asked.label in names:
            return names.index(asked.label)
        todo = alike(asked.label, names) or "say which column it is"
        raise InputError(f"must have the column {asked.label!r} of --label, found {listed(names)}: {todo}")
    found = [place for place, name in enumerate(names) if name.lower() in NAMES]
    if len(found) == 1:
        return found[0]
    if found:
        several = listed(names[place] for place in found)
        raise InputError(
            f"must have one column of labels, found {several}: say which it is with --label COLUMN, and --drop-column "
            "others that tell the label"
        )
    usual = f"{', '.join(NAMES[:-1])} or {NAMES[-1]}"
    raise InputError(
        f"must have a column of labels called {usual}, found {listed(names)}: say which it is with --label COLUMN"
    )


def check_dropped(where: str, headers: Iterable[Sequence[str]], asked: Wanted) -> None:
    """Refuse to drop a column that no table has; one that only some have may be dropped, to make all alike."""
    there = dict.fromkeys(spelt(name) for header in headers for name in header)
    lacking = {name: alike(name, there) for name in asked.drop if name not in there}
    if lacking:
        todo = ", ".join(filter(None, lacking.values())) or "leave it out"
        raise InputError(
            f"{where} must have what --drop-column names in one of its tables, {listed(map(repr, lacking))} is in none "
            f"(columns: {listed(there)}): {todo}"
        )


def same(tables: dict[str, Columns]) -> dict[str, str]:
    """Return a problem for each table whose features have other names than those of the first; any order will do."""
    if not tables:
        return {}
    first, *others = tables
    names = tables[first].feature_names
    problems = {}
    for where in others:
        found = tables[where].feature_names
        if set(found) != set(names):
            lacks = [repr(name) for name in names if name not in set(found)]
            adds = [repr(name) for name in found if name not in set(names)]
            told = [f"{what} {listed(some)}" for what, some in (("lacks", lacks), ("has also", adds)) if some]
            problems[where] = (
                f": columns must be those of {first}, {' and '.join(told)}: give all silos the same columns, or "
                "--drop-column those that only some have"
            )
    return problems


def refusal(problems: Mapping[str, str]) -> InputError:
    """Return one error for all problems, given by file; a problem that many files share is told once."""
    return several(grouped(problems))


def grouped(problems: Mapping[str, str]) -> list[str]:
    """Return a line for each problem, with the files that have it."""
    files: dict[str, list[str]] = {}
    for where, problem in problems.items():
        files.setdefault(problem, []).append(where)
    return [f"{listed(some, 3)}{'' if text.startswith(':') else ' '}{text}" for text, some in files.items()]


def alike(word: str, names: Iterable[str]) -> str:
    """Return a question that proposes the names nearest to a word, or nothing where none is near."""
    folded: dict[str, str] = {}
    for name in names:
        folded.setdefault(name.lower(), name)
    close = difflib.get_close_matches(word.lower(), folded, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(folded[name] for name in close)}?" if close else ""


def listed(names: Iterable[str], most: int = SHOWN) -> str:
    """Return the first names of a list, and how many more there are, as text."""
    every = list(names)
    shown = [name if len(name) <= LONG else f"{name[:LONG]}..." for name in every[:most]]
    return ", ".join(shown) + (f" and {len(every) - most} more" if len(every) > most else "")


def written(names: Iterable[str]) -> str:
    """Return names as a comma list, in quotes where they would be read as something else."""
    plain = re.compile(r"[^\s\",](?:[^\",]*[^\s\",])?")
    return ",".join(
        name if plain.fullmatch(name) and name != "none" else '"' + name.replace('"', '""') + '"' for name in names
    )


def leave_out(*names: str) -> str:
    """Return the advice how to drop these columns."""
    return f"drop it with --drop-column {shlex.quote(written(names))}"


def told(label: str, features: Sequence[str]) -> str:
    """Return the label and the features of tables in a few words."""
    count = f"{len(features):,} feature{'s' * (len(features) != 1)}"
    return f"the label is {label!r}, {count}: {listed(features)}"


def suspects(label: str, features: Sequence[str]) -> tuple[str, ...]:
    """Return a note on features that have the name of a label."""
    found = [name for name in features if name.lower() in NAMES]
    if not found:
        return ()
    what = f"the column {found[0]!r} is a feature" if len(found) == 1 else f"the columns {listed(found)} are features"
    return (f"{what} beside the label {label!r}: if it tells the label, no score means anything, {leave_out(*found)}",)
