"""Options of a run: the method, and which silos there are with which examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from amity.config.options import option


@dataclass(frozen=True)
class DataOptions:
    """The part of a `Run` that says which silos there are, and how their examples are read."""

    method: str = option("heurfedamp", "the method")
    data: str = option("digits", "data set (see `amity data list`), or folder:PATH for your own silos", deals=True)
    setting: str = option(
        "auto",
        "how the data fall to the silos, NAME or NAME:key=value,key=value (see `amity settings`); "
        "auto: natural silos, else practical",
        deals=True,
    )
    clients: int | Literal["auto"] = option(
        "auto",
        "number of silos; auto: as many as the data come in, else the setting's own",
        symbol="m",
        at_least=1,
        deals=True,
    )
    per_silo: int = option(0, "at most this many training examples per silo, a random part; 0 for all", at_least=0)
    test_fraction: float = option(
        0.2, "share of each silo's data held out where they bring no test part", above=0, below=1, deals=True
    )
    labels: Literal["auto", "classes", "quantities"] = option(
        "auto",
        "what the labels of folder:PATH are; auto: quantities (regression) if one has a fraction or they hardly repeat",
        deals=True,
    )
    label: str = option(
        "auto",
        "column of the labels in tables of folder:PATH; auto: the one called label, target, y, outcome or class",
        deals=True,
    )
    drop_column: str = option(
        "none",
        "columns of such tables to leave out, comma-separated (a name with a comma in double quotes); may be repeated",
        deals=True,
        repeatable=True,
    )
    schema: str = option(
        "none",
        "file that says what the columns of such tables are (`amity data schema`); none: silos agree",
        deals=True,
    )
    scale: Literal["auto", "none"] = option(
        "auto",
        "numbers of such tables less their mean over their deviation, over all silos; none: as they are",
        deals=True,
    )
