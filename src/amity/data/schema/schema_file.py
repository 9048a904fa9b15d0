"""A schema as a TOML file, to be read and edited by people: `amity data schema` writes it, `--schema` takes it."""

from __future__ import annotations

from pathlib import Path

import tomli_w

from amity.data.schema.schema_json import schema_of
from amity.data.schema.table_schema import TableSchema
from amity.errors import InputError, InputErrors, several
from amity.small_files import parse_toml, read_small

_HEAD = """\
# What each column of the silos' tables is, and how it becomes features. Edit it as you like.
#
#   number      (x - centre) / scale; fill stands for a missing value
#   yes/no      1 or 0
#   category    a feature for each of categories; with other = true one for all others
#   date        order = "ymd", "dmy" or "mdy"; parts of days, month, weekday; centre and scale are days since 2000
#   id, constant, empty, text      left out
#   unclear     not the same kind of thing everywhere: choose one of the kinds above
#
# missing = true adds a feature that says where a value was missing; marks = ["unknown"] are more words for missing.

"""


def schema_text(schema: TableSchema) -> str:
    """Return a schema as the text of a file."""
    content = schema.json()
    return _HEAD + tomli_w.dumps({**content, "columns": list(map(dict, content["columns"]))})


def read_schema(path: str | Path) -> TableSchema:
    """Return the schema in a file. All that is wrong with it is said at once."""
    try:
        content = parse_toml(read_small(Path(path).expanduser()).decode())
    except OSError as error:
        raise InputError(f"cannot read the schema {path} ({error.strerror or error}): check the path") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"the schema {path} is not valid TOML: {error}") from None
    try:
        schema = schema_of(content)
    except InputError as error:
        lines = error.lines if isinstance(error, InputErrors) else [str(error)]
        raise several(f"{path}: {line}" for line in lines) from None
    if unclear := [column.name for column in schema.columns if column.kind == "unclear"]:
        raise InputError(
            f"{path}: kinds must be decided, {', '.join(unclear)} is still unclear: write number, category, date, "
            "yes/no, or text to leave it out"
        )
    return schema
