"""A silo's own data: whether they can be read, what they are, and whether they fit a contract. Run by child.py.

Of data only sizes, numbers of classes and names of columns are told, and these only where the column of the labels is
found, for the first line of a table without a header would be an example. An error may quote an example: it goes to
the log, which is silent unless it is asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from amity.checks.findings import Account
from amity.contract import Silo
from amity.data.formats import silo_file
from amity.data.own.folder_layout import pieces
from amity.data.own.tensors import to_labels
from amity.data.schema import columns, labels
from amity.data.schema.schema_file import read_schema
from amity.errors import InputError
from amity.federation.run_contract import RunContract
from amity.site.config import Site
from amity.site.data import UnfitData, code, prepared
from amity.site.files import read_by_schema, read_parts

SHOWN = 12  # columns that are told by name
SEE_LOG = "--log-level error says why, and may quote examples: keep what it says here"

_log = logging.getLogger("amity.checks")


class _Unfit(InputError):
    """Something about data that may be told."""


def check_data(account: Account, site: Site, contract: RunContract | None) -> None:
    """Note whether the data can be read, and what they are."""
    check = "data"
    try:
        for path in () if site.data is None else (site.data,):
            _check_there(path)
            _check_columns(account, site, path)
        words = _described(site) if contract is None else _fitting(site, contract)
    except (UnfitData, _Unfit) as error:
        text = str(error)
        if text.endswith("its own log says why"):
            account.failed(check, text.rpartition(": ")[0], SEE_LOG)
        else:
            account.refused(check, error)
    except Exception as error:
        _log.error("the data cannot be read", exc_info=error)
        what = site.factory if site.data is None else site.data
        account.failed(check, f"{what} cannot be read as a silo's data ({type(error).__name__})", SEE_LOG)
    else:
        account.passed(check, words)


def _check_there(path: Path) -> None:
    try:
        if path.is_dir():
            next(path.iterdir(), None)
        else:
            path.open("rb").close()
    except OSError as error:
        raise _Unfit(
            f"{path} cannot be read ({error.strerror}): check data in silo.toml, and who may read it"
        ) from None


def _check_columns(account: Account, site: Site, path: Path) -> None:
    """Note the columns of a table, where its column of labels is found."""
    tables = [piece.path for piece in pieces(path) if piece.is_table]
    if not tables:
        return
    if site.schema is not None:
        schema = read_schema(site.schema)
        account.passed("columns", f"label {schema.label!r}, {_listed(schema.features)}, by {site.schema.name}")
        return
    header = [columns.spelt(name) for name in silo_file.header(tables[0])]
    label = None if site.label is None else columns.spelt(site.label)
    usual = f"one of {', '.join(columns.NAMES)}"
    if not any(name == label if label is not None else name.lower() in columns.NAMES for name in header):
        wanted = repr(label) if label is not None else usual
        raise _Unfit(
            f"{tables[0].name} needs a column of labels called {wanted}, none of its {len(header)} columns is: "
            "set label in silo.toml to the name of that column, as the file's first line has it"
        )
    asked = columns.wanted(site.label, site.drop_columns)
    columns.check_dropped(tables[0].name, [header], asked)
    chosen = columns.choose(header, asked)
    account.passed("columns", f"label {chosen.label_name!r}, {_listed(chosen.feature_names)}")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{len(names)} feature{'s' * (len(names) != 1)}: {', '.join(names[:SHOWN])}{more}"


def _fitting(site: Site, contract: RunContract) -> str:
    """Say what the data are when they are made ready as the contract wants them."""
    silos = prepared(site, contract.data, replace(contract.options, device=site.device))
    (silo,) = silos.silos
    words = f"they fit the contract: {_sizes(silo)}, examples of {_shape(silo.train.x.shape[1:])}"
    if not contract.data.classes:
        return f"{words}, labels are quantities"
    return f"{words}, {len(silo.train.y.unique())} of the contract's {contract.data.classes} classes to train on"


def _sizes(silo: Silo) -> str:
    parts = {"training": silo.train, "validation": silo.val, "test": silo.test}
    return ", ".join(f"{len(part.y):,} {name} examples" for name, part in parts.items() if part is not None)


def _described(site: Site) -> str:
    """Say what the data are without a contract."""
    if site.data is None:
        return _of_factory(site)
    if site.schema is None:
        parts = read_parts(site.data, site.label, site.drop_columns, None)
    else:
        parts = read_by_schema(site.data, read_schema(site.schema), site.label, site.drop_columns)
    sizes = [len(part.y) for part in parts]
    divided = f"{sizes[0]:,} training and {sizes[1]:,} test" if len(sizes) == 2 else f"{sum(sizes):,}"
    return f"{divided} examples of {_shape(parts[0].x.shape[1:])}, {_kinds(site, [part.y for part in parts])}"


def _of_factory(site: Site) -> str:
    found = code(site, str(site.factory))()
    if isinstance(found, Silo):
        return f"{_sizes(found)}, of {_shape(found.train.x.shape[1:])}, by {site.factory}"
    if not isinstance(found, (tuple, list)) or len(found) not in (2, 4):
        got = f"{len(found)} items" if isinstance(found, (tuple, list)) else type(found).__name__
        raise _Unfit(
            f"{site.factory} must give x_train, y_train, x_test, y_test or an amity.Silo, got {got}: change it"
        )
    marks = [labels.written(_array(to_labels(y, site.name)), "labels") for y in found[1::2]]
    divided = " training and ".join(f"{len(y):,}" for y in marks) + (" test" if len(marks) == 2 else "")
    return f"{divided} examples by {site.factory}, {_kinds(site, marks)}"


def _array(y: object) -> labels.Written:
    found = y.numpy(force=True) if hasattr(y, "numpy") else y
    return found  # type: ignore[return-value]


def _kinds(site: Site, marks: Sequence[labels.Written]) -> str:
    numbered = labels.number({site.name: [labels.written(y, "labels") for y in marks]})
    return f"{numbered.classes} classes" if numbered.classes else "labels are quantities"


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) + (" numbers" if len(shape) == 1 else "")
