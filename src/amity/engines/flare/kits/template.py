"""The silo.toml that a new site begins with."""

from __future__ import annotations

_TEXT = """\
# This silo's own configuration. Nothing in it leaves this machine, and no message can change it.

name = "{name}"

# The data: a file or folder as for `amity run --data folder:PATH`. It stays outside the kit.
# data = "/path/to/data"

# The column that holds the label, where the data are tables.
# label = "label"

# The model, by name as in `amity run --model`, or "package.module:function" of a package that is installed here.
# model = "auto"

# Where runs, approvals and the audit log are kept: outside the kit as well.
# state = "/path/to/state"

# Which runs this silo takes part in without being asked. Without this table every run waits for
# `amity federation approve`.
# [policy]
"""


def silo_toml(name: str) -> str:
    """Return the text of a new silo.toml, where all but the name is to be filled in."""
    return _TEXT.format(name=name)
