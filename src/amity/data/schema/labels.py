"""Labels as users write them, words or numbers: classes are the union over silos."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from amity.errors import InputError

Written = npt.NDArray[np.generic]
"""Labels of one part of one silo: text or finite numbers.  # [n]"""

Kind = Literal["auto", "classes", "quantities"]
"""What labels are. auto: quantities if any has a fraction, else classes."""

_ONE_KIND = "labels must be of one kind in all silos"
MISSING = {"", "?", "na", "n/a", "nan", "null"}

# float() takes more than people mean: 1_0, infinity, digits of other scripts.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_WHOLE = re.compile(r"([+-]?\d+)\.0*", re.ASCII)  # 1.0 means the class 1; 01 may be another code
_PLAIN = re.compile(r"[+-]?(0|[1-9]\d*)?(\.\d*)?", re.ASCII)  # 1, 1.0, -0.5; not 01 or 12e4, which may be codes


class Numbered(NamedTuple):
    """The labels of all silos as numbers."""

    parts: list[Tensor]  # [n] int64: the class; float64: the quantity, where there are no classes
    classes: int  # 0: quantities
    names: tuple[str, ...]  # of the classes, in their order


class _Part(NamedTuple):
    where: str  # the silo
    texts: list[str]  # its different labels
    place: Tensor  # [n] int64: of each example's label among them


def is_number(text: str) -> bool:
    """True for a finite decimal number as people write it."""
    return len(text) <= 1000 and _NUMBER.fullmatch(text) is not None


def is_text(part: Written) -> bool:
    """True if all labels are words, be they numbers written as text."""
    if part.dtype == object:
        return all(isinstance(label, (str, bytes)) for label in part.flat)
    return part.dtype.kind in "UST"


def written(y: Written, where: str) -> Written:
    """Return labels as text without blanks at its ends, or as finite numbers; refuse anything else."""
    if y.ndim != 1:
        raise InputError(f"{where} must be one label for each example, found shape {y.shape}: align it")
    if not is_text(y):
        if y.dtype.kind not in "biuf":
            raise InputError(f"{where} must be numbers or words, found {y.dtype}: convert it")
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            row = int((~np.isfinite(y)).argmax())
            raise InputError(f"{where} row {row} must have a label, found {y[row]}: fill it in or drop the row")
        return y
    try:
        texts = [(label.decode() if isinstance(label, bytes) else label).strip() for label in y.tolist()]
    except UnicodeDecodeError as error:
        raise InputError(f"{where} must be words in UTF-8, found {error.object!r}: convert them") from error
    for row, text in enumerate(texts):
        if text.lower() in MISSING:
            raise InputError(f"{where} row {row} must have a label, found {text!r}: fill it in or drop the row")
    return np.array(texts, dtype=str)


def number(silos: Mapping[str, Sequence[Written]], kind: Kind = "auto", *, by_name: bool = False) -> Numbered:
    """Number the labels of all silos: words in alphabetical order, whole numbers in numerical order.

    A fraction anywhere makes all of them quantities. `silos` maps each silo to the labels of its parts. `kind` says
    what they are where this guess is wrong: counts are whole quantities, grades may be 1.5. Numbers are compared
    exactly, whatever their size, and 1 equals 1.0; with `by_name` they are compared as text, so that 01 and 1 are two
    classes.
    """
    parts = [_Part(where, *_texts(y)) for where, own in silos.items() for y in own]
    known = {text: where for where, texts, _ in reversed(parts) for text in texts}  # where it is first found
    word = next((text for text in known if not is_number(text)), None)
    if kind == "quantities" and word is not None:
        raise InputError(
            f"quantities must be finite numbers, got words for labels ({word!r} in {known[word]}): "
            "words are classes, do not ask for quantities"
        )
    fraction = next((text for text in known if _is_fraction(text)), None) if kind == "auto" and not by_name else None
    if fraction is not None and word is not None:  # <0.1 or a slip of the pen must not make classes of quantities
        raise InputError(
            f"{_ONE_KIND}, got {fraction} in {known[fraction]} and {word!r} in {known[word]}: write the same words or "
            "numbers everywhere, or --labels classes if they are classes"
        )
    if not by_name:
        _check_kinds(parts)
    if kind == "quantities" or fraction is not None:
        return Numbered([_quantities(part) for part in parts], 0, ())
    key = {text: Decimal(text) if is_number(text) and not by_name else text for text in known}
    names = _names(key, known)
    order = sorted(names.values(), key=lambda name: (Decimal(name) if word is None else 0, name))
    index = {name: i for i, name in enumerate(order)}
    found = [torch.tensor([index[names[key[text]]] for text in part.texts], dtype=torch.int64) for part in parts]
    return Numbered([those[part.place] for those, part in zip(found, parts, strict=True)], len(order), tuple(order))


def place_of(label: object, places: Mapping[str, int], *, counted: bool) -> int:
    """Return the place of a label in a list that others have made; -1: it is not there.

    `counted`: the list has words alone, so that whole numbers can only be places in it.
    """
    if counted and isinstance(label, int) and not isinstance(label, bool):
        return label if 0 <= label < len(places) else -1
    text = str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
    text = unicodedata.normalize("NFC", text.strip())
    if text not in places and (whole := _WHOLE.fullmatch(text)):
        text = whole[1]
    return places.get(text, -1)


def _texts(part: Written) -> tuple[list[str], Tensor]:
    """Return the different labels as text, and for each example the place of its label among them."""
    values, place = np.unique(part, return_inverse=True)
    if values.dtype.kind == "f":
        texts = [str(int(v)) if v == int(v) else np.format_float_positional(v, trim="-") for v in values]
    else:
        texts = [unicodedata.normalize("NFC", str(value)) for value in values.tolist()]
    return texts, torch.from_numpy(place)


def _is_fraction(text: str) -> bool:
    return is_number(text) and Decimal(text) != Decimal(text).to_integral_value()


def _check_kinds(parts: Sequence[_Part]) -> None:
    """Refuse a silo with only numbers beside one with only words: nobody knows which number is which word.

    A silo that has both shows that the numbers are names too, as in grades 1, 2, x.
    """
    silos: dict[str, list[str]] = {}
    for where, texts, _ in parts:
        silos.setdefault(where, []).extend(texts)
    worded = {where: word for where, texts in silos.items() for word in texts if not is_number(word)}
    if not worded or any(is_number(text) for where in worded for text in silos[where]):
        return
    for where, texts in silos.items():
        if where not in worded and texts:
            other, word = next(iter(worded.items()))
            raise InputError(
                f"{_ONE_KIND}, got {texts[0]} in {where} and {word!r} in {other}: write the same words or numbers "
                "everywhere"
            )


def _quantities(part: _Part) -> Tensor:
    values = torch.tensor([float(text) for text in part.texts], dtype=torch.float64)
    if len(bad := (~values.isfinite()).nonzero()):
        raise InputError(
            f"{part.where}: quantities must fit a floating point number, got {part.texts[int(bad[0, 0])]}: "
            "use a larger unit"
        )
    return values[part.place]


def _names(key: Mapping[str, Decimal | str], known: Mapping[str, str]) -> dict[Decimal | str, str]:
    """Return the name of each class; refuse two spellings of one number that may be different codes."""
    first: dict[Decimal | str, str] = {}
    for text, value in key.items():
        other = first.setdefault(value, text)
        if text != other and not (_PLAIN.fullmatch(text) and _PLAIN.fullmatch(other)):
            raise InputError(
                f"a label must be spelt in one way, got {other!r} in {known[other]} and {text!r} in {known[text]}: "
                "write the same everywhere, or words if they are different classes"
            )
    return {
        value: _short(value) if isinstance(value, Decimal) and _PLAIN.fullmatch(text) else text
        for value, text in first.items()
    }


def _short(value: Decimal) -> str:
    text = f"{value:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) if value else "0"
