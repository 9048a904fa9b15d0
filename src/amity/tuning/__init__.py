"""Tuning: a search for good options of a method, on validation data alone.

    tuned = amity.tuning.tune(amity.Run("fedamp", data="digits", rounds=15), trials=20, out="runs/tuned")
    tuned.run          the run with the best options that were found
    tuned.command      the same as a command

Optuna proposes what to try. Test data are not there while trials run, so nothing can be chosen by them. What was found
is kept in `out`: the same call goes on where it was interrupted, and with more trials it goes on searching.

    space.py       where to search: from options, --search and Python
    hidden.py      silos without their test data
    trial.py       one trial: its settings, what became of it, and its runs
    pruning.py     when a trial need not go on
    study.py       what was tried so far, in Optuna's storage; what to try next
    workers.py     trials one after the other, or in several processes
    asked.py       the directory of a search
    search.py      the search from its beginning to the choice
"""

from amity.tuning.search import Tuned, tune
from amity.tuning.space import Choices, Range, Space, default_space, parse_space
from amity.tuning.trial import Trial

__all__ = ["Choices", "Range", "Space", "Trial", "Tuned", "default_space", "parse_space", "tune"]
