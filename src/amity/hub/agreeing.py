"""Agreeing on a schema: every silo that is invited is asked for a summary of its columns, and they become one schema.

    HUB/runs/<name>/summaries/<silo>.json     as they came, until the schema is made: a server that is killed goes on
    HUB/runs/<name>/schema.toml               what came of them, for people to look at, edit and name in a RUN.toml

Nothing is guessed: a column that is not the same kind of thing everywhere is left to people, and the end says which. A
column that some silo does not have is left out, since that silo could not be coded.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from amity.errors import InputError, LostWorker
from amity.federation.encoding import encode
from amity.federation.messages import Declined, Failed, Left, Summarise, Summarised
from amity.federation.safe_files import replace
from amity.federation.schema_contract import SchemaContract
from amity.federation.transport import Away, Letter, Transport
from amity.hub import requests
from amity.hub.board import Board
from amity.hub.gathering import AGAIN, ANSWER, SELDOM, check_patience, read_answer

if TYPE_CHECKING:
    from amity.data.schema.summary import Summary

SCHEMA_FILE, SUMMARIES = "schema.toml", "summaries"


def agree_on_schema(folder: Path, contract: SchemaContract, document: str, network: Transport, board: Board) -> None:
    """Ask for the summaries that are missing, make the schema, and say on the board how it came out."""
    if not (folder / SCHEMA_FILE).exists():
        summaries = _gathered(folder, contract, document, network, board)
        replace(folder / SCHEMA_FILE, _made(contract, summaries).encode())
    shutil.rmtree(folder / SUMMARIES, ignore_errors=True)  # they have served their purpose
    for name in contract.invited:
        board.silo(name, "finished")
    undecided = _undecided(folder / SCHEMA_FILE)
    board.phase("incomplete" if undecided else "ended", undecided)


def _gathered(
    folder: Path, contract: SchemaContract, document: str, network: Transport, board: Board
) -> dict[str, Summary]:
    """The summaries of all silos; those that came before are on disk."""
    found = _saved(folder, contract)
    began, pause = time.monotonic(), AGAIN
    while True:
        known = len(found)
        missing = [name for name in contract.invited if name not in found]
        found |= _asked(folder, contract, document, missing, network, board)
        if len(found) == len(contract.invited):
            return found
        check_patience(contract, found, board, time.monotonic() - began)
        board.phase("gathering", f"{len(found)} of {len(contract.invited)} silos have sent a summary")
        requests.check(folder)
        time.sleep(pause)
        pause = AGAIN if len(found) > known else min(SELDOM, 1.3 * pause)


def _saved(folder: Path, contract: SchemaContract) -> dict[str, Summary]:
    from amity.data.schema.summary_json import summary_of

    found = {}
    for name in contract.invited:
        file = folder / SUMMARIES / f"{name}.json"
        if file.exists():
            try:
                found[name] = summary_of(file.read_text(encoding="utf-8"), contract.least_count)
            except (InputError, UnicodeDecodeError):
                file.unlink()  # damaged: the silo gives the same again
    return found


def _asked(
    folder: Path, contract: SchemaContract, document: str, names: Sequence[str], network: Transport, board: Board
) -> dict[str, Summary]:
    """Show the contract to these silos; those that approve it send a summary, which is put on disk."""
    from amity.data.schema.summary_json import summary_of

    found: dict[str, Summary] = {}
    asks = {name: Summarise(contract.name, 0, contract.invited.index(name), document) for name in names}
    letters = {name: Letter(encode(ask)) for name, ask in asks.items()}
    for name, received in network.send(letters, dict.fromkeys(letters, ANSWER)):
        answer = read_answer(received)
        match answer:
            case Summarised():
                try:
                    found[name] = summary_of(answer.summary, contract.least_count)
                except InputError as error:
                    board.silo(name, "absent", str(error))
                    continue
                (folder / SUMMARIES).mkdir(mode=0o700, exist_ok=True)
                replace(folder / SUMMARIES / f"{name}.json", answer.summary.encode())
                board.silo(name, "uploaded")
            case Declined():
                board.silo(name, "declined", answer.words)
            case Left():
                board.silo(name, "left")
            case Failed():
                board.silo(name, "connected", answer.words)
            case None if isinstance(received, Away):
                board.silo(name, "absent", received.words)
            case _:
                board.silo(name, "absent", "it gives an answer that is none: look at its version")
    if network.stopped:
        raise LostWorker("it was stopped at the server")
    return found


def _made(contract: SchemaContract, summaries: Mapping[str, Summary]) -> str:
    """Return the text of the schema's file."""
    from amity.data.schema.agreement import agree
    from amity.data.schema.column_schema import ColumnSchema
    from amity.data.schema.schema_file import schema_text
    from amity.data.schema.table_schema import TableSchema, check_features

    shared, lacking = _shared(summaries)
    agreement = agree(contract.label, shared, contract.scale, contract.least_count)
    whose = {one.column: f"{one.rule} ({', '.join(one.silos)})" for one in agreement.conflicts}
    columns = [dataclasses.replace(one, why=whose.get(one.name, one.why)) for one in agreement.schema.columns]
    columns += [ColumnSchema(name, "empty", why=f"{silo} does not have it") for name, silo in lacking.items()]
    schema = TableSchema(contract.label, tuple(columns))
    if not agreement.conflicts:
        check_features(schema)
    return _head(contract) + schema_text(schema)


def _shared(summaries: Mapping[str, Summary]) -> tuple[dict[str, Summary], dict[str, str]]:
    """The summaries of the columns that all silos have; and the other columns, with a silo that lacks each."""
    names = list(dict.fromkeys(name for one in summaries.values() for name in one["columns"]))
    lacking = {
        name: min(silo for silo, one in summaries.items() if name not in one["columns"])
        for name in names
        if not all(name in one["columns"] for one in summaries.values())
    }
    shared: dict[str, Summary] = {
        silo: {**one, "columns": {name: own for name, own in one["columns"].items() if name not in lacking}}
        for silo, one in summaries.items()
    }
    return shared, lacking


def _undecided(file: Path) -> str:
    """What people have to decide, in words; nothing where all is clear."""
    columns = tomllib.loads(file.read_text(encoding="utf-8"))["columns"]
    each = [f"{one['name']!r} {one['why']}" for one in columns if one["kind"] == "unclear"]
    return f"columns that people have to decide about, in {SCHEMA_FILE}: {'; '.join(each)}" if each else ""


def _head(contract: SchemaContract) -> str:
    rows = f"training rows with seed {contract.seed}, nothing of which fewer than {contract.least_count} rows tell"
    return f"# {contract.name}: agreed between {', '.join(contract.invited)}, by summaries of their\n# {rows}.\n#\n"
