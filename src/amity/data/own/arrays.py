"""A federation of a user's own data, brought as arrays, tensors or torch data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from amity.contract import InputError, Silo, Split
from amity.data.division import Division
from amity.data.own.agreement import check_names, check_shapes, class_count
from amity.data.own.tensors import Array, examples_of, to_labels, to_tensor
from amity.data.schema import labels
from amity.data.schema.examples import as_features, as_labels
from amity.data.schema.remarks import look, on_columns, on_silos
from amity.data.silos import Silos

Examples = tuple[Array, Array] | Dataset[Any]
"""x and y, or a data set of such pairs."""

OwnData = Examples | tuple[Array, Array, Array, Array] | tuple[Dataset[Any], Dataset[Any]]
"""The data of one silo: everything, of which a test part is held out; or its train and test part."""


def own_silos(
    silos: Mapping[str, OwnData] | Sequence[Silo],
    classes: int | None = None,
    data: str = "own",
    *,
    test_fraction: float = 0.2,
    seed: int = 0,
) -> Silos:
    """Make a federation of your own data. `silos` maps each silo's name to one of

        (x_train, y_train, x_test, y_test)   arrays or tensors
        (x, y)                               the same; a seeded `test_fraction` of each class is held out
        (train, test)                        two torch.utils.data.Dataset of pairs x, y
        dataset                              one of them; a part is held out

    x is [n, ...], floating point or uint8 (images), and kept as float32, not scaled. y is [n]: whole numbers from 0
    to classes - 1, where `classes` is the largest label plus one, unless given; or words, then the classes are all
    words of all silos in alphabetical order; or, with `classes=0`, quantities (regression). Examples have one shape
    in all silos, and every silo has some to train and some to test on. The `notes` of the result name what may be a
    mistake.

    >>> x, y = torch.rand(10, 2), torch.tensor([0, 1] * 5)
    >>> silos = amity.own_silos({"north": (x, y), "south": (x[:8], y[:8], x[8:], y[8:])})
    >>> silos.sizes, silos.classes
    ((8, 8), 2)
    """
    if classes is not None and type(classes) is not int:
        raise InputError(f"classes must be a whole number, got {classes!r}: try classes=2, or 0 for quantities")
    if not isinstance(silos, (Mapping, Sequence)) or isinstance(silos, str):
        raise InputError(f"a federation is made of Silo or name -> arrays, got {type(silos).__name__}: use these")
    if isinstance(silos, Mapping):
        named, words = _from_mapping(silos, Division(seed, test_fraction), classes == 0)
    else:
        named, words = list(silos), ()
    if not named:
        raise InputError("a federation needs at least one silo, got none: add one")
    checked = tuple(_checked(silo, classes == 0) for silo in named)
    check_names([silo.name for silo in checked])
    check_shapes(checked)
    if words and classes not in (None, len(words)):
        raise InputError(f"the silos name {len(words)} classes, got classes={classes}: leave it out")
    count = 0 if classes == 0 else class_count(checked, len(words) or classes)
    return Silos(checked, count, data, "own", _notes(checked, count), words)


def _notes(silos: Sequence[Silo], classes: int) -> tuple[str, ...]:
    tables = len(silos[0].train.x.shape) == 2
    looks = {silo.name: [look(silo.train.x.numpy())] for silo in silos} if tables else {}
    return (*on_columns(looks), *on_silos(silos, classes))


def _from_mapping(
    silos: Mapping[str, OwnData], division: Division, quantities: bool
) -> tuple[list[Silo], tuple[str, ...]]:
    """Return the silos, and the names of the classes where labels are words."""
    check_names(list(silos))
    brought = {name: _pairs(own, name) for name, own in silos.items()}
    marks = [y for own in brought.values() for _, y in own]
    words: tuple[str, ...] = ()
    if any(not isinstance(y, Tensor) for y in marks):
        written = {f"silo {name!r}": [_written(y, name, quantities) for _, y in own] for name, own in brought.items()}
        union = labels.number(written, "quantities" if quantities else "auto")
        words, marks = union.names, list(union.parts)
    numbered = iter(marks)
    out = []
    for name, own in brought.items():
        splits = [Split(x, next(numbered)) for x, _ in own]  # type: ignore[arg-type]
        train, test = splits if len(splits) == 2 else division.divide(_split(splits[0], "all", name, quantities), name)
        out.append(Silo(name, train, test))
    return out, words


def _written(y: Tensor | labels.Written, name: str, quantities: bool) -> labels.Written:
    """Return labels as an array of words or numbers, so that those of all silos can be numbered together."""
    if not isinstance(y, Tensor):
        return labels.written(y, f"silo {name!r}: labels")
    checked = as_labels(y, f"silo {name!r}:", quantities)
    return (y if y.dtype == torch.bool else checked).numpy(force=True)


def _pairs(own: OwnData, name: str) -> list[tuple[Tensor, Tensor | labels.Written]]:
    """Return a silo's examples and labels as one pair, or as two: train and test."""
    items: list[Any] = list(own) if isinstance(own, (tuple, list)) else [own]
    datasets = [item for item in items if isinstance(item, Dataset)]
    if datasets and len(datasets) == len(items) <= 2:
        return [examples_of(item, name) for item in datasets]
    if not datasets and len(items) in (2, 4):
        return [(to_tensor(x, name), to_labels(y, name)) for x, y in zip(items[::2], items[1::2], strict=True)]
    got = f"{len(items)} items" if isinstance(own, (tuple, list)) else type(own).__name__
    forms = "(x_train, y_train, x_test, y_test), (x, y), a Dataset or two of them"
    raise InputError(f"silo {name!r} must be {forms}, got {got}: give one of these")


def _checked(silo: Silo, quantities: bool) -> Silo:
    if not isinstance(silo, Silo):
        raise InputError(f"a federation is made of Silo or name -> arrays, got {type(silo).__name__}: use these")
    return silo._replace(
        train=_split(silo.train, "train", silo.name, quantities),
        val=None if silo.val is None else _split(silo.val, "val", silo.name, quantities),
        test=_split(silo.test, "test", silo.name, quantities),
    )


def _split(split: Split, part: str, name: str, quantities: bool) -> Split:
    """Return one part of a silo as checked tensors: float32 examples, int64 or float64 labels, at least one of each."""
    where = f"silo {name!r}, {part}:"
    x, y = as_features(to_tensor(split.x, name), where), as_labels(to_tensor(split.y, name), where, quantities)
    if len(x) != len(y):
        raise InputError(f"{where} needs one label per example, got {len(x)} examples and {len(y)} labels: align them")
    if len(y) == 0:
        raise InputError(f"{where} needs at least one example, got none: add some or leave this silo out")
    return Split(x, y)
