"""What an organisation does with its own results: predict, export, verdict, leave."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from amity.cli.flags import with_log_options
from amity.cli.predict import AsJson, Keep, show

SiteFolder = Annotated[Path, typer.Argument(metavar="SITE", help="the silo's folder", show_default=False)]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="the run's name", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("predict")(with_log_options(predict_command))
    app.command("export")(with_log_options(export_command))
    app.command("verdict")(with_log_options(verdict_command))
    app.command("leave")(with_log_options(leave_command))


def predict_command(
    site: SiteFolder,
    run: RunName,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="csv, parquet, npz or a folder of images", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", metavar="OUT.csv", help="where the predictions go")] = Path(
        "predictions.csv"
    ),
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Use the silo's personal model: a prediction for each example of FILE, with probabilities."""
    from amity.predicting.writing import check_target
    from amity.site.predict import predict

    check_target(out, file)
    show(predict(site, run, file, keep or ()), out, as_json=as_json)


def export_command(
    site: SiteFolder,
    run: RunName,
    to: Annotated[str, typer.Option("--to", metavar="KIND", help="safetensors, torch or onnx", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="file to write; else the run's name in this folder")
    ] = None,
) -> None:
    """Write the silo's personal model for its own programs: its weights, a torch program, or ONNX."""
    from amity.predicting.export import kind_of
    from amity.site.predict import export

    done = export(site, run, kind_of(to), out)
    print(f"{done.path}: {done.words}")


def verdict_command(site: SiteFolder, run: RunName) -> None:
    """Show whether the silo gains by a run that is over.

    Trains a model with its own data only, where that has not been done yet.
    """
    from amity.site.config import load_site
    from amity.site.results import REPORT, finish

    here = load_site(site)
    verdict = finish(here, run)
    print(f"{here.name}, run {run}: {verdict['words']}")
    print(f"report: {here.run(run) / REPORT}")


def leave_command(site: SiteFolder, run: RunName) -> None:
    """Leave a run: the silo keeps the personal model that it has, and is not asked again."""
    from amity.site.config import load_site
    from amity.site.ending import ask_to_leave

    here = load_site(site)
    ask_to_leave(here, run)
    print(f"{here.name} leaves run {run} when its last turn is settled: its model stays in {here.run(run)}")
