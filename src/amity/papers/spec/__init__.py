"""An experiment of a paper, as its TOML file describes it.

    id = "X3"                          title, paper, expect: for readers
    [run]                              options of every run, and of its method under `set`
    [columns.mnist]                    options of a column of the table (data sets, settings)
    [rows.fedamp]                      options of a row (methods); `method` is the row's name unless given
    [cells.fedamp.mnist]               options of one row in one column
    [paper_values]                     fedamp = { mnist = 97.59 }: what the paper reports
    [sizes.cpu]                        options of a size; `rows` and `columns` choose some of them, `seeds` repeats,
                                       [sizes.cpu.in.mnist] and [sizes.cpu.of.fedamp] are for one column or row
    [[outputs]]                        kind = "table", "curves", ...: what is made of the results
    [[claims]]                         text, above, below: rows that the paper says are better than others

Where two tables set the same option, the later one in this list wins: run, column, row, cell, size, size in a column,
size of a row, size of a row in a column. `like` names an experiment whose tables are taken over, so that two views of
the same runs share them; `paper_values` of one's own replace all of those, and `only_rows` and `only_columns` leave the
other rows and columns out of every size.

    vocabulary.py   the words that a file may use: sizes, kinds of output, keys
    cells.py        the runs of one row in one column, and how their options are merged
    keys.py         the name of a run on disk
    experiment.py   an experiment, its outputs and its claims
    files.py        experiments found and read
    shape.py        the types of what a file holds, checked
    checks.py       the names and options in a file, checked
    selection.py    an experiment with some of its rows and columns

Nothing here imports torch.
"""

from amity.papers.spec.cells import Cell, Choice
from amity.papers.spec.experiment import Claim, Experiment, Output
from amity.papers.spec.files import home, names, names_or_refuse, read
from amity.papers.spec.keys import key_of, requested_options
from amity.papers.spec.selection import only
from amity.papers.spec.vocabulary import HALVES, KINDS, OPTIONS, SIZES, Measure
from amity.trials import VALIDATION_SHARE

__all__ = [
    "HALVES",
    "KINDS",
    "OPTIONS",
    "SIZES",
    "VALIDATION_SHARE",
    "Cell",
    "Choice",
    "Claim",
    "Experiment",
    "Measure",
    "Output",
    "home",
    "key_of",
    "names",
    "names_or_refuse",
    "only",
    "read",
    "requested_options",
]
