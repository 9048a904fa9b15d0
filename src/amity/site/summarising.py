"""A silo's summary of its own columns, as a contract about a schema asks for it: of its training rows alone.

The rows that are held out for testing are those that a run with the contract's seed will hold out, so that no test row
has a part in what columns are taken for, or in their means.
"""

from __future__ import annotations

from amity.data.division import Division
from amity.data.formats import silo_file
from amity.data.memory import MemoryBudget
from amity.data.own.folder_layout import pieces
from amity.data.own.problems import Problems
from amity.data.own.table_columns import TableOptions, chosen_columns
from amity.data.schema import columns
from amity.data.schema.cells import Table
from amity.data.schema.summary import summarise
from amity.data.schema.summary_json import summary_of, summary_text
from amity.data.schema.withheld import withheld
from amity.federation.schema_contract import SchemaContract
from amity.site.config import Site
from amity.site.data import UnfitData, numbered, private


def summary_for(site: Site, contract: SchemaContract) -> str:
    """Return the summary that the silo lets go under this contract, as the text that is sent."""
    with private(site):
        if site.label is not None and columns.spelt(site.label) != columns.spelt(contract.label):
            raise UnfitData(
                f"silo {site.name}: the contract's labels are in column {contract.label!r}, silo.toml names "
                f"{site.label!r}: name the same column"
            )
        training = _training(site, contract)
        least = contract.least_count
        if training.rows < least:
            raise UnfitData(
                f"silo {site.name}: a summary must rest on {least} training rows or more, it has {training.rows}: "
                "let the others agree, and code by their schema"
            )
        text = summary_text(withheld(summarise(training), least))
        summary_of(text, least)  # what the server would not take does not leave
        return text


def _training(site: Site, contract: SchemaContract) -> Table:
    """The rows that the silo will train on, with all columns that it does not leave out."""
    own = [] if site.data is None else pieces(site.data)
    if site.data is None or not all(piece.is_table for piece in own):
        raise UnfitData(f"silo {site.name}: a schema is about csv or parquet tables, its own data are none: bring some")
    problems, budget = Problems(), MemoryBudget()
    options = TableOptions(columns.wanted(contract.label, site.drop_columns))
    chosen = chosen_columns([piece.path for piece in own], site.data, options, problems)
    problems.check()
    first = own[0].path
    silo_file.weigh(first, chosen[first], budget)
    table = silo_file.read_table(first, chosen[first], budget)
    if len(own) == 2:
        return table
    (y,) = numbered(site, contract.labels, [table.labels], f"column {contract.label!r}")
    fraction = contract.test_fraction if site.test_fraction is None else site.test_fraction
    return table.take(~Division(contract.seed, fraction).held_out(y, site.name).numpy())
