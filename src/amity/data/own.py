"""A federation of a user's own data, brought as arrays, tensors or torch data sets."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from amity.contract import InputError, Silo, Split
from amity.data import labels
from amity.data.division import Division
from amity.data.silos import Silos, parts

Array = ArrayLike | Tensor
Examples = tuple[Array, Array] | Dataset[Any]
"""x and y, or a data set of such pairs."""

Own = Examples | tuple[Array, Array, Array, Array] | tuple[Dataset[Any], Dataset[Any]]
"""What one silo brings: everything, to be divided; or its train and test part."""


def federation(
    silos: Mapping[str, Own] | Sequence[Silo],
    classes: int | None = None,
    data: str = "own",
    *,
    test_fraction: float = 0.2,
    seed: int = 0,
) -> Silos:
    """A federation of your own data: silo name -> one of

        (x_train, y_train, x_test, y_test)   arrays or tensors
        (x, y)                               the same; a seeded `test_fraction` of each class is held out
        (train, test)                        two torch.utils.data.Dataset of pairs x, y
        dataset                              one of them; a part is held out

    x is [n, ...], floating point or uint8 (images), and kept as float32, not scaled. y is [n]: whole numbers from 0
    to classes - 1, where `classes` is the largest label plus one, unless given; or words, then the classes are all
    words of all silos in alphabetical order; or, with `classes=0`, quantities (regression). Examples have one shape
    in all silos, and every silo has some to train and some to test on.
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
    if classes == 0:
        return Silos(checked, 0, data, "own")
    return Silos(checked, _class_count(checked, len(words) or classes), data, "own", labels=words)


def _from_mapping(silos: Mapping[str, Own], division: Division, quantities: bool) -> tuple[list[Silo], tuple[str, ...]]:
    """The silos, and the names of the classes where labels are words."""
    check_names(list(silos))
    brought = {name: _brought(own, name) for name, own in silos.items()}
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
    if not isinstance(y, Tensor):
        return labels.written(y, f"silo {name!r}: labels")
    checked = _labels(y, f"silo {name!r}:", quantities)
    return (y if y.dtype == torch.bool else checked).numpy(force=True)


def _brought(own: Own, name: str) -> list[tuple[Tensor, Tensor | labels.Written]]:
    """Everything as one pair, or train and test as two."""
    items: list[Any] = list(own) if isinstance(own, (tuple, list)) else [own]
    datasets = [item for item in items if isinstance(item, Dataset)]
    if datasets and len(datasets) == len(items) <= 2:
        return [_pairs(item, name) for item in datasets]
    if not datasets and len(items) in (2, 4):
        return [(_tensor(x, name), _marks(y, name)) for x, y in zip(items[::2], items[1::2], strict=True)]
    got = f"{len(items)} items" if isinstance(own, (tuple, list)) else type(own).__name__
    forms = "(x_train, y_train, x_test, y_test), (x, y), a Dataset or two of them"
    raise InputError(f"silo {name!r} must be {forms}, got {got}: give one of these")


def _pairs(dataset: Dataset[Any], name: str) -> tuple[Tensor, Tensor | labels.Written]:
    """All examples of a torch data set."""
    if isinstance(dataset, TensorDataset) and len(dataset.tensors) == 2:
        return dataset.tensors[0], dataset.tensors[1]
    sized = hasattr(dataset, "__len__") and not isinstance(dataset, IterableDataset)
    items = [dataset[i] for i in range(len(dataset))] if sized else list(dataset)  # type: ignore[arg-type, call-overload]
    for place, item in enumerate(items):
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise InputError(f"silo {name!r}, example {place}: must be a pair x, y, got {type(item).__name__}: wrap it")
        # As arrays they would have their channels last, or numbers of a palette; torch's DataLoader refuses them too.
        if type(item[0]).__module__.partition(".")[0] == "PIL":
            raise InputError(
                f"silo {name!r}, example {place}: must be numbers, got a PIL image: give the data set "
                "transform=torchvision.transforms.ToTensor(), or convert it"
            )
    if not items:
        return torch.empty(0, 1), torch.empty(0, dtype=torch.int64)
    examples = [_tensor(x, name) for x, _ in items]
    for place, example in enumerate(examples):
        if example.shape != examples[0].shape:
            raise InputError(
                f"silo {name!r}, example {place}: must have the shape {tuple(examples[0].shape)} of the first, "
                f"got {tuple(example.shape)}: resize or pad it"
            )
    marks = [y.item() if isinstance(y, Tensor) and y.numel() == 1 else y for _, y in items]
    return torch.stack(examples), _marks([y.tolist() if isinstance(y, Tensor) else y for y in marks], name)


def _marks(array: Array, name: str) -> Tensor | labels.Written:
    """Labels: a tensor of numbers, or an array of words."""
    if isinstance(array, Tensor):
        return array
    try:
        written = np.asarray(array)
    except ValueError:
        return _tensor(array, name)  # which knows what to say
    return written if written.size and labels.is_text(written) else _tensor(array, name)


def _tensor(array: ArrayLike | Tensor, name: str) -> Tensor:
    if isinstance(array, Tensor):
        return array
    try:
        return torch.from_numpy(np.array(array))  # a copy: torch cannot view read-only memory
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        reason = str(error).split(". ")[0].splitlines()[0]
        raise InputError(f"silo {name!r} must hold arrays of numbers ({reason}): convert its columns") from error


def _checked(silo: Silo, quantities: bool) -> Silo:
    if not isinstance(silo, Silo):
        raise InputError(f"a federation is made of Silo or name -> arrays, got {type(silo).__name__}: use these")
    return silo._replace(
        train=_split(silo.train, "train", silo.name, quantities),
        val=None if silo.val is None else _split(silo.val, "val", silo.name, quantities),
        test=_split(silo.test, "test", silo.name, quantities),
    )


def _split(split: Split, part: str, name: str, quantities: bool) -> Split:
    where = f"silo {name!r}, {part}:"
    x, y = features(_tensor(split.x, name), where), _labels(_tensor(split.y, name), where, quantities)
    if len(x) != len(y):
        raise InputError(f"{where} needs one label per example, got {len(x)} examples and {len(y)} labels: align them")
    if len(y) == 0:
        raise InputError(f"{where} needs at least one example, got none: add some or leave this silo out")
    return Split(x, y)


def features(x: Tensor, where: str) -> Tensor:
    # Other whole numbers may be counts or indices into a table: only the user knows which.
    if not x.is_floating_point() and x.dtype != torch.uint8:
        raise InputError(f"{where} x must be floating point or uint8, got {_dtype(x)}: convert it to float32")
    if x.layout != torch.strided:
        raise InputError(f"{where} x must be dense, got {_layout(x)}: call to_dense()")
    if x.ndim < 2:
        raise InputError(f"{where} x must be [n, ...] with features, got shape {tuple(x.shape)}: add an axis")
    if not math.prod(x.shape[1:]):
        raise InputError(f"{where} x must have at least one feature, got shape {tuple(x.shape)}: add some")
    x = x.detach().cpu().float()
    bad = (~x.isfinite()).flatten(1).any(1).nonzero().flatten()
    if len(bad):
        raise InputError(f"{where} x must be finite, got NaN or infinity in row {bad[0]}: impute or drop it")
    return x


def _labels(y: Tensor, where: str, quantities: bool) -> Tensor:
    if y.is_complex() or y.is_floating_point() and not quantities:
        raise InputError(
            f"{where} labels must be whole numbers, got {_dtype(y)}: convert them to int64, "
            "or set classes=0 if they are quantities"
        )
    if y.layout != torch.strided:
        raise InputError(f"{where} labels must be dense, got {_layout(y)}: call to_dense()")
    if y.ndim != 1:
        raise InputError(f"{where} labels must be [n], got shape {tuple(y.shape)}: give one per example")
    if quantities:
        y = y.detach().cpu().double()  # until they are standardised, which float32 may not survive
        if len(bad := (~y.isfinite()).nonzero()):
            raise InputError(f"{where} labels must be finite, got NaN or infinity in row {bad[0, 0]}: drop the row")
        return y
    y = y.detach().cpu().long()
    if len(y) and y.min() < 0:
        raise InputError(f"{where} labels must be >= 0, got {y.min()}: number the classes from 0")
    return y


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _layout(tensor: Tensor) -> str:
    return str(tensor.layout).removeprefix("torch.")


def check_names(names: Sequence[str]) -> None:
    """A silo's name becomes a file name and the key of its random streams."""
    for name in names:
        if not isinstance(name, str) or not _is_name(name):
            raise InputError(
                f"a silo's name must start with a letter or digit, then up to 99 of these or space _ . -, "
                f"got {name!r}: rename it"
            )
    composed = [unicodedata.normalize("NFC", name) for name in names]
    for name in composed:
        if composed.count(name) > 1:
            raise InputError(f"silo names must differ, got {name!r} {composed.count(name)} times: rename one")


def _is_name(name: str) -> bool:
    # Marks belong to the letter before them: vowels of Indic scripts, accents as macOS writes them.
    letters = "".join(c for c in name[1:] if unicodedata.category(c) not in ("Mn", "Mc"))
    return len(name) <= 100 and re.fullmatch(r"\w[\w .-]*", name[:1] + letters) is not None


def check_shapes(silos: Sequence[Silo]) -> None:
    first = tuple(silos[0].train.x.shape[1:])
    for silo in silos:
        for part, split in parts(silo).items():
            if split is not None and split.x.shape[1:] != first:
                got = tuple(split.x.shape[1:])
                raise InputError(
                    f"silo {silo.name!r}, {part}: examples must have the shape {first} of {silos[0].name!r}, "
                    f"got {got}: give all silos the same features"
                )


def _class_count(silos: Sequence[Silo], classes: int | None) -> int:
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
