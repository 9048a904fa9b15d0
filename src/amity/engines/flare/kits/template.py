"""The silo.toml that a new site begins with."""

from __future__ import annotations

_TEXT = """\
# This silo's own configuration. Nothing in it leaves this machine, and no message changes it.
# Paths are relative to this file, and lie outside kit/.

name = "{name}"

# Where approvals, runs, personal models and the audit log are kept.
state = "state"

# The data: a csv, parquet or npz file, or a folder, as `amity run --data folder:PATH` takes for one silo.
# data = "patients.csv"

# The column that holds the labels, where the data are tables.
# label = "diagnosis"

# The code of a model of your own, module:function, where a run names one that Amity does not have.
# model = "my_models:build"

# To which runs this silo says yes. A run that is within these limits still waits for an approval by hand, unless the
# last line says otherwise.
[policy]
# methods = ["fedamp", "fedavg"]
# least_quorum = 2
# most_megabytes = 50
# approve = "standing"
"""


def silo_toml(name: str) -> str:
    """Return the text of a new silo.toml: the data are to be filled in."""
    return _TEXT.format(name=name)
