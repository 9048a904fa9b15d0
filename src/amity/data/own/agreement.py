"""What the silos of a federation must agree on: different names, one shape of examples, the same classes."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from amity.contract import InputError, Silo
from amity.data.silos import parts


def check_names(names: Sequence[str]) -> None:
    """Refuse names that cannot be file names, and equal ones: a name is also the key of a silo's random streams."""
    for name in names:
        if not isinstance(name, str) or not _is_name(name):
            raise InputError(
                f"a silo's name must start with a letter or digit, then up to 99 of these or space _ . -, "
                f"got {name!r}: rename it"
            )
    composed = [unicodedata.normalize("NFC", name) for name in names]
    for name, count in Counter(composed).items():
        if count > 1:
            raise InputError(f"silo names must differ, got {name!r} {count} times: rename one")


def _is_name(name: str) -> bool:
    # Marks belong to the letter before them: vowels of Indic scripts, accents as macOS writes them.
    letters = "".join(c for c in name[1:] if unicodedata.category(c) not in ("Mn", "Mc"))
    return len(name) <= 100 and re.fullmatch(r"\w[\w .-]*", name[:1] + letters) is not None


def check_shapes(silos: Sequence[Silo]) -> None:
    """Refuse silos whose examples have another shape than those of the first."""
    first = tuple(silos[0].train.x.shape[1:])
    for silo in silos:
        for part, split in parts(silo).items():
            if split is not None and split.x.shape[1:] != first:
                got = tuple(split.x.shape[1:])
                raise InputError(
                    f"silo {silo.name!r}, {part}: examples must have the shape {first} of {silos[0].name!r}, "
                    f"got {got}: give all silos the same features"
                )


def class_count(silos: Sequence[Silo], classes: int | None) -> int:
    """Return the number of classes: the largest label plus one, or `classes`, which no label may exceed."""
    if classes is not None and classes < 1:
        raise InputError(f"a federation needs at least 1 class, or 0 for quantities, got {classes}: raise classes")
    top = {
        (silo.name, part): int(split.y.max())
        for silo in silos
        for part, split in parts(silo).items()
        if split is not None
    }
    if classes is None:
        return max(top.values()) + 1
    for (name, part), label in top.items():
        if label >= classes:
            raise InputError(f"silo {name!r}, {part}: labels must be 0 to {classes - 1}, got {label}: raise classes")
    return classes
