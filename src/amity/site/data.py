"""A silo's own data, in the form that a contract asks for: a federation of one.

Labels become numbers by the contract's list, columns come into the contract's order. What is divided is divided by the
run's seed and the silo's name, as in a simulation, which gives the same model of the same silos bit by bit.

An error about data may quote them, and errors are sent to the server. So only those cross that are raised here on
purpose (`UnfitData`): they name columns and count examples. Of any other the silo's own log says more.
"""

from __future__ import annotations

import logging
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amity.config.run import Run
from amity.contract import InputError, Silo, Split
from amity.data.division import Division
from amity.data.own.arrays import own_silos
from amity.data.own.folder_layout import pieces
from amity.data.own.tensors import to_labels, to_tensor
from amity.data.schema import labels
from amity.data.schema.schema_file import read_schema
from amity.data.schema.schema_json import schema_of
from amity.data.schema.table_schema import TableSchema
from amity.data.silos import Silos
from amity.data.source import scale_pixels
from amity.federation.run_contract import DataForm, schema_hash
from amity.prepare import ready
from amity.resolve import method_of
from amity.site.config import Site
from amity.site.files import lacking_columns, read_by_schema, read_parts

_log = logging.getLogger("amity.site")


class UnfitData(InputError):
    """A silo's data are not what the contract asks for. Its text quotes none of them, and may be sent."""


def prepared(site: Site, form: DataForm, run: Run) -> Silos:
    """The silo's data as they are learnt from: read, and made ready as in a simulation."""
    with private(site):
        name, method = method_of(run)
        return ready(silos_of(site, form, run), run, name, method)


def silos_of(site: Site, form: DataForm, run: Run) -> Silos:
    """The silo's data, in the form of a contract."""
    with private(site):
        features: tuple[str, ...] = ()
        schema = schema_for(site, form)
        if site.data is None:
            whole = _from_factory(site, form, run)
        else:
            whole, features = _from_files(site, site.data, form, run, schema)
        for split in (whole.train, whole.test, whole.val):
            if split is not None and tuple(split.x.shape[1:]) != form.shape:
                raise UnfitData(
                    f"silo {site.name}: the contract's examples have the shape {list(form.shape)}, "
                    f"its own have {list(split.x.shape[1:])}: bring them to that form"
                )
        silos = own_silos([_apart(whole)], classes=form.classes, data=site.name)
    (silo,) = silos.silos
    return Silos(
        (silo,),
        form.classes,
        site.name,
        "own",
        silos.notes,
        form.labels or (),
        label=site.label or ("" if schema is None else schema.label),
        features=features,
        schema=schema,
        pixels=site.data is not None,  # a factory's arrays are taken as they are
    )


def schema_for(site: Site, form: DataForm) -> TableSchema | None:
    """The schema by which the silo's tables are coded: the contract's, and no other. None where it has none."""
    own = None if site.schema is None else read_schema(site.schema)
    if form.schema is None:
        if own is not None:
            raise UnfitData(
                f"silo {site.name}: silo.toml names a schema and the contract has none, so that silos could code "
                "tables in different ways: leave schema out, or ask for a contract with [data] schema"
            )
        return None
    if site.data is None or not all(piece.is_table for piece in pieces(site.data)):
        raise UnfitData(
            f"silo {site.name}: the contract's schema codes csv or parquet tables, its own data are none: bring tables"
        )
    if own is not None and schema_hash(own.json()) != schema_hash(form.schema):
        raise UnfitData(
            f"silo {site.name}: the schema in silo.toml must be the contract's, it has {schema_hash(own.json())[:12]} "
            f"and the contract {schema_hash(form.schema)[:12]}: leave schema out of silo.toml, the contract brings it"
        )
    schema = schema_of(form.schema)
    if schema.features != form.features:
        raise UnfitData(f"silo {site.name}: the contract's features must be those of its schema: have it made anew")
    lacking = lacking_columns(site.data, schema)
    if lacking:
        raise UnfitData(
            f"silo {site.name}: the columns of the contract's schema must be in its tables, it lacks {len(lacking)} "
            f"({', '.join(lacking)[:200]}): add or rename them"
        )
    return schema


@contextmanager
def private(site: Site) -> Iterator[None]:
    """Keep what goes wrong with data to the silo's own log."""
    try:
        yield
    except UnfitData:
        raise
    except Exception as error:
        _log.error("the data of silo %s cannot be made ready", site.name, exc_info=error)
        kind = type(error).__name__
        raise UnfitData(f"silo {site.name} cannot make its data ready ({kind}): its own log says why") from error


def _from_files(
    site: Site, path: Path, form: DataForm, run: Run, schema: TableSchema | None
) -> tuple[Silo, tuple[str, ...]]:
    """What lies in the silo's files, and the names of its features, where it has tables."""
    if schema is None:
        parts = read_parts(path, site.label, site.drop_columns, form.features)
    else:
        parts = read_by_schema(path, schema, site.label, site.drop_columns)
    if missing := sorted({name for part in parts for name in part.missing}):
        raise UnfitData(
            f"silo {site.name}: the contract's features must be columns of its tables, it lacks "
            f"{len(missing)} of {len(form.features or ())} ({', '.join(missing)[:200]}): add or rename them"
        )
    column = parts[0].label
    splits = [
        Split(coloured(part.x, form.shape), y)
        for part, y in zip(parts, numbered(site, form.labels, [part.y for part in parts], column), strict=True)
    ]
    fraction = run.test_fraction if site.test_fraction is None else site.test_fraction
    halves = splits if len(splits) == 2 else Division(run.seed, fraction).divide(splits[0], site.name)
    train, test = (Split(scale_pixels(split.x), split.y) for split in halves)
    return Silo(site.name, train, test), parts[0].features


def coloured(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Grey images with three channels, where examples of this shape are images in colour."""
    grey = x.dim() == 4 and x.shape[1] == 1 and len(shape) == 3 and shape[0] == 3
    return x.expand(-1, 3, -1, -1) if grey else x


def _from_factory(site: Site, form: DataForm, run: Run) -> Silo:
    """What the silo's own function gives: train and test part as four arrays, all as two, or an amity.Silo."""
    found = code(site, str(site.factory))()
    if isinstance(found, Silo):
        brought = {"train": found.train, "test": found.test, "val": found.val}
        named = {part: (split.x, split.y) for part, split in brought.items() if split is not None}
    elif isinstance(found, (tuple, list)) and len(found) in (2, 4):
        named = dict(zip(("train", "test"), zip(found[::2], found[1::2], strict=True), strict=False))
    else:
        got = f"{len(found)} items" if isinstance(found, (tuple, list)) else type(found).__name__
        raise UnfitData(
            f"silo {site.name}: its factory must give x_train, y_train, x_test, y_test or an amity.Silo, got {got}: "
            "change it"
        )
    marks = [_written(y, site.name) for _, y in named.values()]
    numbers = numbered(site, form.labels, marks, "its factory's labels")
    pairs = zip(named.items(), numbers, strict=True)
    splits = {part: Split(to_tensor(x, site.name), y) for (part, (x, _)), y in pairs}
    if "test" not in splits:
        fraction = run.test_fraction if site.test_fraction is None else site.test_fraction
        splits["train"], splits["test"] = Division(run.seed, fraction).divide(splits["train"], site.name)
    return Silo(site.name, splits["train"], splits["test"], splits.get("val"))


def _written(y: Any, name: str) -> labels.Written:
    found = to_labels(y, name)
    return labels.written(found.numpy(force=True) if isinstance(found, Tensor) else found, f"silo {name}: labels")


def code(site: Site, place: str) -> Callable[..., Any]:
    """The function that silo.toml names; its module may lie beside the file."""
    module, _, name = place.partition(":")
    if str(site.folder) not in sys.path:
        sys.path.insert(0, str(site.folder))
    found = getattr(import_module(module), name)
    if not callable(found):
        raise InputError(f"{place} must be a function, got {type(found).__name__}: name another one in silo.toml")
    return found  # type: ignore[no-any-return]


def numbered(site: Site, names: Sequence[str] | None, parts: Sequence[labels.Written], column: str) -> list[Tensor]:
    """Labels as numbers: places in the contract's list of names, or quantities."""
    if names is None:
        return labels.number({site.name: [labels.written(y, column) for y in parts]}, "quantities").parts
    places = {unicodedata.normalize("NFC", label): place for place, label in enumerate(names)}
    counted = not any(map(labels.is_number, places))  # the list has words: whole numbers can only be places in it
    found, unknown = [], 0
    for y in parts:
        texts, place = np.unique(labels.written(y, column), return_inverse=True)
        listed = [labels.place_of(text, places, counted=counted) for text in texts.tolist()]
        numbers = torch.tensor(listed, dtype=torch.int64)[torch.from_numpy(place)]
        unknown += int((numbers < 0).sum())
        found.append(numbers)
    if unknown:
        total = sum(map(len, parts))
        raise UnfitData(
            f"silo {site.name}: labels must be among the contract's {len(places)}, {unknown} of {total} examples have "
            f"another one ({column}): rename these labels, or ask for a contract that has them"
        )
    return found


def _apart(silo: Silo) -> Silo:
    """The same data in memory of torch's own: elsewhere it may be aligned otherwise, and sums then differ."""
    parts = {"train": silo.train, "test": silo.test, "val": silo.val}
    copies = {key: None if part is None else Split(part.x.clone(), part.y.clone()) for key, part in parts.items()}
    return silo._replace(**copies)  # type: ignore[arg-type]
