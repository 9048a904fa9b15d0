"""`amity export`: a silo's personal model as a file for others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from amity.cli.flags import with_log_options
from amity.cli.predict import RunDirectory, SiloName, silo_of


@with_log_options
def export_command(
    run: RunDirectory,
    to: Annotated[
        str, typer.Option("--to", metavar="KIND", help="safetensors, torch, onnx or card", show_default=False)
    ],
    silo: SiloName = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="file to write; else the silo's name in this folder")
    ] = None,
) -> None:
    """Write a silo's personal model for others: its weights, a torch program, ONNX, or the model card."""
    from amity.learn.threads import one_thread
    from amity.predicting.export import export, kind_of
    from amity.result import read_run

    kind, result = kind_of(to), read_run(run)
    with one_thread():
        done = export(result, silo_of(result, silo), kind, out)
    print(f"{done.path}: {done.words}")
