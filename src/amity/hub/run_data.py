"""[data] of a RUN.toml: the form that all silos' data have, and how tables come to it.

features = ["age", "pulse"]         # columns of tables that are numbers; else shape = [1, 28, 28]
labels = ["ill", "well"]            # or classes = 10, or labels = "quantities"

schema = "schema.toml"              # instead of features: tables as they are, coded by this file, which
label = "diagnosis"                 # `amity federation schema RUN.toml` makes: the column of the labels,
scale = "auto"                      # how numbers are scaled,
least_count = 5                     # and how many rows must share a word before a silo names it
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from amity.config.options import nearest
from amity.errors import InputError
from amity.federation.run_contract import DataForm
from amity.federation.schema_contract import FEWEST, MOST_COUNT, Scale

if TYPE_CHECKING:
    from amity.data.schema.table_schema import TableSchema

KEYS = ("shape", "features", "labels", "classes", "schema", "label", "scale", "least_count")
ASKED = ("label", "scale", "least_count")  # what silos are asked for a schema by
MOST_CLASSES = 10_000


class SchemaTerms(NamedTuple):
    """What a RUN.toml says about the schema that silos are to agree on."""

    file: Path
    label: str
    labels: tuple[str, ...] | None
    scale: Scale
    least_count: int


class DataReader:
    """Reads [data], and collects what is wrong."""

    def __init__(self, table: Mapping[str, Any], folder: Path) -> None:
        """`folder`: of the RUN.toml, where paths begin."""
        self._table = table
        self._folder = folder
        self.problems: list[str] = []
        for key in table:
            if key not in KEYS:
                self.problems.append(f"unknown key data.{key!s:.60}: {nearest(key, KEYS)}")

    def form(self) -> DataForm | None:
        """Return the form of the data, or None where there are problems."""
        labels = self._labels()
        schema = self._schema() if "schema" in self._table else None
        if "schema" not in self._table:
            self._nothing_of_schemas()
            features, shape = self._features()
        if self.problems:
            return None
        if schema is not None:
            return DataForm((len(schema.features),), labels, schema.features, dict(schema.json()))
        return DataForm(tuple(shape), labels, features)

    def terms(self) -> SchemaTerms | None:
        """Return what silos are to agree on, or None where there are problems."""
        labels, file, label = self._labels(), self._file(), self._table.get("label")
        if not isinstance(label, str) or not label:
            self._wrong("label", "the name of the column of the labels", label)
        scale, least = self._table.get("scale", "auto"), self._table.get("least_count", FEWEST)
        if scale not in get_args(Scale):
            self._wrong("scale", "auto or none", scale)
        if not _whole(least, FEWEST, MOST_COUNT):
            self._wrong("least_count", f"a whole number from {FEWEST} to {MOST_COUNT:,}", least)
        if self.problems or file is None:
            return None
        return SchemaTerms(file, str(label), labels, scale, least)

    def _file(self) -> Path | None:
        value = self._table.get("schema")
        if not isinstance(value, str) or not value:
            self._wrong("schema", "the name of a schema file, schema.toml for instance", value)
            return None
        for key in ("shape", "features"):
            if key in self._table:
                self.problems.append(f"data.{key} follows from data.schema: leave it out")
        return self._folder / Path(value).expanduser()

    def _schema(self) -> TableSchema | None:
        from amity.data.schema.schema_file import read_schema  # now: runs of other data need none of it

        file, label = self._file(), self._table.get("label")
        if file is None:
            return None
        if not file.exists():
            self.problems.append(
                f"data.schema names {file}, which is not there: let silos agree on it by `amity federation schema`, "
                "or write it"
            )
            return None
        try:
            schema = read_schema(file)
        except InputError as error:
            self.problems.append(str(error))
            return None
        if label not in (None, schema.label):
            self._wrong("label", f"{schema.label!r}, the label of {file.name}, or left out", label)
        return schema

    def _nothing_of_schemas(self) -> None:
        for key in ASKED:
            if key in self._table:
                self.problems.append(f"data.{key} is about a schema, and data.schema is missing: name a schema file")

    def _features(self) -> tuple[tuple[str, ...] | None, list[int]]:
        features = self._table.get("features")
        if features is not None and (not texts(features) or not features or len(set(features)) < len(features)):
            self._wrong("features", "a list of columns, each once", features)
            return None, []
        shape = self._table.get("shape", [len(features)] if features else None)
        if not isinstance(shape, list) or not shape or not all(_whole(side, 1, 10**6) for side in shape):
            self._wrong("shape", "a list of whole numbers from 1, or features named", shape)
            return None, []
        if features and shape != [len(features)]:
            self._wrong("shape", f"[{len(features)}], as features are named, or left out", shape)
        return None if features is None else tuple(features), shape

    def _labels(self) -> tuple[str, ...] | None:
        table = self._table
        if ("labels" in table) == ("classes" in table):
            self.problems.append('data needs either labels = [names], labels = "quantities" or classes = N: give one')
        elif "classes" in table:
            if _whole(table["classes"], 2, MOST_CLASSES):
                return tuple(map(str, range(table["classes"])))
            self._wrong("classes", f"a whole number from 2 to {MOST_CLASSES}", table["classes"])
        elif table["labels"] != "quantities":
            labels = table["labels"]
            if texts(labels) and 2 <= len(set(labels)) == len(labels) <= MOST_CLASSES:
                return tuple(labels)
            self._wrong("labels", 'a list of at least 2 classes, each once, or "quantities"', labels)
        return None

    def _wrong(self, key: str, rule: str, value: Any) -> None:
        got = "is missing" if value is None else f"got {value!r:.80}"
        self.problems.append(f"data.{key} must be {rule}, {got}: change it")


def texts(value: Any) -> bool:
    """Whether a value is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high
