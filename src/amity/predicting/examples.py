"""Files of new examples, brought to the form that a model was trained on.

patients.csv · patients.parquet    the model's columns by name, in any order; others are left out. The label's column
                                   may be there: then predictions are compared with it
new.npz                            the examples as `x`, and their labels as `y`, where these are known
scan.png · FOLDER/1.png, ...       images; in a folder for each class, their labels are known
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from amity.data.formats import images, npz, silo_file
from amity.data.formats.part import part_of_arrays
from amity.data.memory import MemoryBudget
from amity.data.own.folder_layout import entries
from amity.data.own.tensors import Array, to_tensor
from amity.data.schema.columns import NAMES, spelt
from amity.data.schema.examples import as_features
from amity.data.schema.labels import Written, is_text
from amity.data.source import scale_pixels
from amity.errors import InputError
from amity.predicting.table import features_of, header, require, schema_in, words_of
from amity.record.contents import ModelFacts

FILE = "file"  # the column that names image files
IMAGE_AXES = 3  # channels, height, width


class Examples(NamedTuple):
    """New examples as a model takes them."""

    x: Tensor  # [n, ...]
    labels: Sequence[object] | None = None  # as they are written, where they are known
    kept: dict[str, list[str]] = {}  # columns that were asked for
    notes: tuple[str, ...] = ()


def read_examples(path: Path, facts: ModelFacts, keep: Sequence[str] = ()) -> Examples:
    """Return the examples of a file or folder. `keep`: columns of a table to be kept beside the predictions."""
    suffix = path.suffix.lower()
    if keep and (path.is_dir() or suffix not in silo_file.TABLES):
        raise InputError(f"--keep takes columns of a csv or parquet table, {path} is none: leave it out")
    if suffix in ("", *images.SUFFIXES, *silo_file.SUFFIXES) and not path.exists():
        raise InputError(f"{path} must be a file or folder of examples, there is none: check the path")
    pictures = path.is_dir() or suffix in images.SUFFIXES
    if pictures and len(facts["shape"]) != IMAGE_AXES:
        got = "a folder" if path.is_dir() else "an image"
        raise InputError(
            f"{path}: the model of {facts['silo']} takes rows of {facts['shape'][0]} features, got {got}: give a csv, "
            "parquet or npz file"
        )
    if pictures:
        found = _from_images(path, facts)
    elif suffix == ".npz":
        found = _from_npz(path, facts)
    elif suffix in silo_file.TABLES:
        found = _from_table(path, facts, [spelt(name) for name in keep])
    else:
        raise InputError(f"{path} must be csv, parquet, npz, an image or a folder of images, it is not: convert it")
    return found._replace(x=fitting(found.x, facts, str(path)))


def examples_of_arrays(x: Array, facts: ModelFacts) -> Examples:
    """Return examples that are arrays or tensors, as they were given to training."""
    given = to_tensor(x, facts["silo"])
    if given.dtype == torch.uint8 and facts["pixels"]:
        given = scale_pixels(given)
    where = f"examples for {facts['silo']}:"
    if not given.is_floating_point() and given.dtype != torch.uint8 and given.dtype != torch.bool:
        given = given.double()  # whole numbers in a row of a table
    return Examples(fitting(as_features(given, where), facts, where.removesuffix(":")))


def fitting(x: Tensor, facts: ModelFacts, where: str) -> Tensor:
    """Return examples of the shape that the model takes: grey images get three channels where it takes colour."""
    shape = facts["shape"]
    if x.dim() == 4 and x.shape[1] == 1 and len(shape) == 3 and shape[0] == 3:
        x = x.expand(-1, 3, -1, -1)
    if list(x.shape[1:]) != shape:
        raise InputError(
            f"{where}: the model of {facts['silo']} takes examples of shape {shape}, got {list(x.shape[1:])}: bring "
            "them to that form"
        )
    if not len(x):
        raise InputError(f"{where} must have one example or more, found none: add some")
    return x


def _from_table(path: Path, facts: ModelFacts, keep: Sequence[str]) -> Examples:
    names, schema = header(path), schema_in(facts)
    label = _label(names, facts)
    wanted = facts["features"] or [name for name in names if name != label and name not in keep]
    if schema is not None:
        wanted = [column.name for column in schema.used]
    if not names or not wanted:
        raise InputError(f"{path} must have a header with the columns of the model, found none: add one")
    if facts["features"] is None and facts["shape"] != [len(wanted)]:
        raise InputError(
            f"{path}: the model of {facts['silo']} takes examples of shape {facts['shape']}, got a table of "
            f"{len(wanted)} columns: give an npz file or images"
        )
    require(path, names, wanted, "the columns of the model")
    require(path, names, keep, "what --keep names")
    words = list(dict.fromkeys([*keep, *([] if label is None else [label])]))
    x, strange = features_of(path, names, wanted, schema)
    written = words_of(path, words)
    unused = [name for name in names if name not in (*wanted, *words)]
    return Examples(
        x,
        None if label is None else written[label],
        {name: written[name] for name in keep},
        (*strange, *([f"left out, not used by the model: {', '.join(unused)}"] if unused else [])),
    )


def _label(names: Sequence[str], facts: ModelFacts) -> str | None:
    """Return the column of the labels, where the table has it."""
    known = facts.get("label")
    if known is not None:
        return known if known in names else None
    used = facts["features"] or ()
    found = [name for name in names if name.lower() in NAMES and name not in used]
    return found[0] if len(found) == 1 else None


def _from_npz(path: Path, facts: ModelFacts) -> Examples:
    silo_file.weigh(path, None, MemoryBudget())
    arrays = npz.read(path)
    if "x" not in arrays:
        raise InputError(f"{path} must contain x, found {', '.join(arrays)}: rename the array of examples")
    x, y = arrays["x"], arrays.get("y")
    if x.ndim < 2:
        raise InputError(f"{path}, x must be one example per row, found shape {x.shape}: add an axis")
    if y is not None and y.shape != (len(x),):
        raise InputError(f"{path}, y must be one label for each of {len(x)} examples, found shape {y.shape}: align it")
    part = part_of_arrays(x, np.zeros(len(x)), f"{path}, x:", "", str(path))
    seen = scale_pixels(part.x) if facts["pixels"] else part.x.float()
    return Examples(seen, None if y is None else _written(y))


def _written(y: Written) -> list[Any]:
    if not is_text(y):
        return list(y.tolist())
    return [label.decode(errors="replace") if isinstance(label, bytes) else str(label) for label in y.tolist()]


def _from_images(path: Path, facts: ModelFacts) -> Examples:
    if not facts["pixels"]:
        raise InputError(
            f"{path} holds images, but the model of {facts['silo']} was trained on arrays, and only you know how they "
            "were made: give them in the same form, as x of an npz file"
        )
    if path.is_file():
        return Examples(scale_pixels(images.pixels(path, [path], MemoryBudget())), kept={FILE: [path.name]})
    folders = [entry for entry in entries(path, "a folder of images") if entry.is_dir()]
    paths = [image for folder in folders or [path] for image in images.listed(folder)]
    if not paths:
        raise InputError(f"{path} must hold PNG or JPEG images, found none: add some")
    x = scale_pixels(images.pixels(path, paths, MemoryBudget()))
    labels = [image.parent.name for image in paths] if folders else None
    if labels is not None and facts["labels"] is not None and not set(labels) & set(facts["labels"]):
        labels = None  # folders that are no classes, but wards or days
    return Examples(x, labels, {FILE: [str(image.relative_to(path)) for image in paths]})
