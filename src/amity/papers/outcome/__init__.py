"""A finished run as it is kept: a small JSON file, and its collaboration weights beside it.

    content.py   the JSON file: its keys, and their types
    outcome.py   the numbers that tables and figures take from it
    tested.py    each test example with the delivered models, packed
    writer.py    written from the record of a run
    reader.py    read and checked

Tables and figures are made from these files alone, so that models and checkpoints can be thrown away.
"""

from amity.papers.outcome.content import DIFFERENCE_DIGITS, FEW_SILOS, SCORE_DIGITS, OutcomeContent, RecordedRound
from amity.papers.outcome.outcome import AtRound, Outcome
from amity.papers.outcome.reader import path_of, read
from amity.papers.outcome.writer import writable_folder, write

__all__ = [
    "DIFFERENCE_DIGITS",
    "FEW_SILOS",
    "SCORE_DIGITS",
    "AtRound",
    "Outcome",
    "OutcomeContent",
    "RecordedRound",
    "path_of",
    "read",
    "writable_folder",
    "write",
]
