"""Whether everything is ready, before a run: check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amity.cli.flags import Json, with_log_options

if TYPE_CHECKING:
    from amity.checks.check import Report
    from amity.checks.findings import Finding


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("check")(with_log_options(check_command))


def check_command(
    folder: Annotated[Path, typer.Argument(metavar="SITE|HUB", help="a silo's folder, or a hub", show_default=False)],
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="FILE", help="a RUN.toml or a contract.json that it is to be ready for"),
    ] = None,
    patience: Annotated[
        float, typer.Option("--patience", metavar="SECONDS", min=1, help="for data and answers that take long")
    ] = 15.0,
    as_json: Json = False,
) -> None:
    """Say whether a silo or a hub is ready, and what to do where it is not: exit code 0, or 2 if something fails."""
    from amity.checks.check import check

    report = check(folder, run, patience)
    print(_for_programs(report) if as_json else "\n".join(_lines(report)))
    if not report.is_ready:
        raise typer.Exit(2)


def _lines(report: Report) -> list[str]:
    width = max(len(one.check) for one in report.findings)
    lines = [line for one in report.findings for line in _told(one, width)]
    counts = ", ".join(f"{report.count(grade)} {grade}" for grade in ("FAIL", "WARN", "PASS"))
    return [*lines, "", f"{report.folder} ({report.kind}): {'ready' if report.is_ready else 'not ready'} ({counts})"]


def _told(one: Finding, width: int) -> list[str]:
    line = f"{one.grade}  {one.check:<{width}}  {one.found}"
    return [line, f"{'':{width + 8}}-> {one.remedy}"] if one.remedy else [line]


def _for_programs(report: Report) -> str:
    content = {
        "folder": str(report.folder),
        "kind": report.kind,
        "ready": report.is_ready,
        "findings": [one._asdict() for one in report.findings],
    }
    return json.dumps(content, indent=1)
