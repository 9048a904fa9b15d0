"""The command line: `amity ...`. Options come from config.Run; errors are one line and exit code 2."""

from __future__ import annotations

import errno
import inspect
import io
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from amity import cli_data
from amity.bench import BENCHMARKS
from amity.cli_data import DataDir, Json
from amity.cli_progress import err, shown
from amity.cli_reproduce import reproduce_command
from amity.cli_settings import settings_command
from amity.config import Run, read_config
from amity.errors import InputError
from amity.options import describe, fields_of, parse, unknown

out = Console()


app = typer.Typer(
    help="Personalised federated learning between silos: one personal model per silo.",
    add_completion=False,
    rich_markup_mode=None,
)

INTERRUPTED = 130


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if show_version:
        print(version("amity"))
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


SOLVING = ("lr", "lr_decay", "optimizer", "batch", "epochs")
"""Options of a run that `--set METHOD.key=value` may give one method of a comparison for itself."""


def main() -> None:
    """Entry point: every error of input becomes one line on stderr and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without an R² must not cost the results of a run
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()  # what cannot be written is said now, not by the interpreter when it ends
    except InputError as error:
        code = _complain(str(error))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EDQUOT):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the rest of the output has nowhere to go
        gone = error.errno == errno.EPIPE  # `| head` has read enough
        code = 1 if gone else _complain(f"there is no room to write ({error.strerror}): make some, or write elsewhere")
    except Exception as error:
        # typer carries its own copy of click, whose usage errors know their exit code and message
        if not callable(getattr(error, "format_message", None)):
            raise
        code = _complain(error.format_message())  # type: ignore[attr-defined]
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str) -> int:
    print("amity: " + " ".join(message.split()), file=sys.stderr)
    return 2


def _with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one flag per option of a run; it receives those given as a dict of texts."""
    flags = {entry["name"]: entry for entry in describe(Run) if entry["name"] != "method"}
    signature = inspect.signature(command, eval_str=True)
    kept = [p for p in signature.parameters.values() if p.name != "given"]
    extra = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[str, typer.Option(_flag(name), help=_help(entry), metavar=entry["takes"])],
        )
        for name, entry in flags.items()
    ]

    def wrapped(**arguments: Any) -> None:
        given = {name: text for name in flags if (text := arguments.pop(name)) is not None}
        command(given=given, **arguments)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in kept] + extra
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    return wrapped


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _help(entry: Mapping[str, Any]) -> str:
    return f"{entry['help']} [default: {entry['default']}]"


Config = Annotated[str | None, typer.Option("--config", metavar="FILE", help="TOML file with the same keys; flags win")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="a method's own option; may be repeated")
]
Out = Annotated[str | None, typer.Option("--out", metavar="DIR", help="directory to write to [default: runs/...]")]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="continue the run in --out from its checkpoint; with more --rounds, schedules stay as begun"
    ),
]
Force = Annotated[bool, typer.Option("--force", help="replace the run that --out holds")]


@app.command("run")
@_with_run_options
def run_command(
    *,
    method: Annotated[
        str | None, typer.Argument(metavar="METHOD", help="see `amity methods`", show_default=False)
    ] = None,
    config: Config = None,
    settings: Settings = None,
    directory: Out = None,
    resume: Resume = False,
    force: Force = False,
    data_dir: DataDir = None,
    given: dict[str, str],
) -> None:
    """Run one method; writes a run directory with its models, record and report."""
    file = _config(config)
    known = _config(None, Path(directory)) if directory is not None and resume else {}
    name = method or file.get("method") or known.get("method")
    if name is None:
        raise InputError("run needs a METHOD, got none: see `amity methods`")
    target = _target(directory, lambda: _runs([name], given, file, settings or [])[0], name)
    own = _config(None, target) if resume else {}
    if name != own.get("method", name):
        raise InputError(f"{target} has method = {own['method']!r}, got {name!r}: resume with the same method")
    runs = _runs([name], given, file, settings or [], {name: own})
    _carry_out(runs, [target], target / "report.html", resume=resume, force=force, data_dir=data_dir)


@app.command("compare")
@_with_run_options
def compare_command(
    *,
    methods: Annotated[
        list[str] | None, typer.Argument(metavar="METHOD...", help="see `amity methods`", show_default=False)
    ] = None,
    config: Config = None,
    settings: Settings = None,
    directory: Out = None,
    resume: Resume = False,
    force: Force = False,
    data_dir: DataDir = None,
    given: dict[str, str],
) -> None:
    """Run several methods on the same federation; prints a table, writes the runs and report.html.

    --set key=value goes to every method that knows the key; --set METHOD.key=value to one, also for its lr,
    lr_decay, optimizer, batch and epochs.
    """
    file = _config(config)
    names = list(methods or file.get("methods", []))
    if not names:
        raise InputError("compare needs METHOD METHOD ..., got none: see `amity methods`")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"compare needs different methods, got {twice} more than once: leave one out")
    target = _target(directory, lambda: _runs(names, given, file, settings or [])[0], "compare")
    targets = [target / name for name in names]
    begun = {place.name: _config(None, place) for place in targets} if resume else {}
    runs = _runs(names, given, file, settings or [], _agreed(begun))
    _carry_out(runs, targets, target / "report.html", resume=resume, force=force, data_dir=data_dir)


@app.command("report")
def report_command(
    directories: Annotated[
        list[str], typer.Argument(metavar="DIR...", help="of runs or comparisons", show_default=False)
    ],
    directory: Annotated[str, typer.Option("--out", metavar="FILE", help="file to write")] = "report.html",
) -> None:
    """Make the table and report.html from run directories."""
    from amity.record import read

    found = [path for name in directories for path in _run_directories(Path(name))]
    _report([read(path) for path in found], Path(directory))


@app.command("methods")
def methods_command(as_json: Json = False) -> None:
    """List the methods, with paper and options."""
    from amity.methods import METHODS, options_of

    if as_json:
        rows = {
            name: {
                "title": entry.title,
                "paper": entry.paper,
                "evaluated": entry.evaluated,
                "down": entry.down,
                "up": entry.up,
                "options": options_of(name),
            }
            for name, entry in METHODS.items()
        }
        print(json.dumps(rows, indent=1))
        return
    for name, entry in METHODS.items():
        out.print(f"[bold]{name}[/]  {escape(entry.title)}  [dim]({escape(entry.paper)})[/]", highlight=False)
        for option in options_of(name):
            symbol = f" ({option['symbol']})" if option["symbol"] else ""
            text = f"{option['name']}={option['default']}{symbol}: {option['help']}; {option['rule']}"
            out.print("    " + escape(text), highlight=False, style="dim")


app.add_typer(cli_data.app, name="data")
app.command("datasets", help="List the data sets (as `amity data list`).")(cli_data.list_command)


app.command("settings")(settings_command)
app.command("reproduce")(reproduce_command)


@app.command("bench")
def bench_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help=f"{', '.join(BENCHMARKS)}, or a file with cases", show_default=False),
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", help="how often each case is timed")] = 5,
    file: Annotated[str | None, typer.Option("--json", metavar="FILE", help="write all that was measured")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="tiny sizes: see that it runs, not how fast")] = False,
) -> None:
    """Measure speed, as ratios against baselines in the same run."""
    _bench(names or [], repeats, quick, file)


def _bench(names: Sequence[str], repeats: int, quick: bool, file: str | None) -> None:
    from amity.bench.show import run

    run(names, repeats, quick, file, out, err)


def _target(directory: str | None, first: Callable[[], Run], what: str) -> Path:
    """--out, or a directory that is named after what is run."""
    if directory is not None:
        if not directory.strip():
            raise InputError("--out needs a directory, got an empty name: leave it out, or give one such as runs/first")
        return Path(directory)
    return Path(f"runs/{what}-{_federation(first())}")


def _config(path: str | None, resumed: Path | None = None) -> dict[str, Any]:
    """The config file; or that of the run in a directory, with which it goes on."""
    if path is None and resumed is not None and (resumed / "config.toml").is_file():
        path = str(resumed / "config.toml")
    return {} if path is None else read_config(path)


def _agreed(own: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What each run of a resumed comparison goes on with: its method's own protocol, and what all have in common.

    That holds for those too that had not begun. Where runs differ in anything else they are of different comparisons.
    """
    begun = [config for config in own.values() if config]
    private = {"method", "set", "val_fraction", "lr", "optimizer", "batch"}  # what `auto` is follows the method
    if any(config.get("method") == "pooled" for config in begun):
        private.add("participation")
    first = begun[0] if begun else {}
    shared = {key: value for key, value in first.items() if all(config.get(key) == value for config in begun)}
    common = {key: value for key, value in shared.items() if key not in private}
    private |= set(SOLVING)
    return {name: {**common, **{k: v for k, v in config.items() if k in private}} for name, config in own.items()}


def _federation(run: Run) -> str:
    """The run's data, setting and seed as part of a file name."""
    from amity.data.settings import resolve

    _, folder, path = run.data.partition(":")
    data = Path(path).resolve().name if folder else run.data
    words = (data, resolve(run.setting, run.data), str(run.seed))
    return "-".join(re.sub(r"[^\w.-]+", "-", word) for word in words)


def _runs(
    names: Sequence[str],
    given: Mapping[str, str],
    file: Mapping[str, Any],
    texts: Sequence[str],
    resumed: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Run]:
    """One run per method, from what a resumed run began with, the config file, the flags and --set, in rising order of
    who wins."""
    from amity.methods import entry_of, known_options, parse_option

    for name in names:
        entry_of(name)
    base = {key: value for key, value in file.items() if key in fields_of(Run)}
    base |= {key: parse(Run, key, text) for key, text in given.items()}
    shared = dict(file.get("set", {}))
    single: dict[str, dict[str, str]] = {name: {} for name in names}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        owner, dot, rest = key.partition(".")
        if not equals or not key:
            raise InputError(f"--set needs key=value, got {text!r}: for example --set sigma=10")
        if dot:
            if owner not in single:
                raise unknown("method in --set", owner, single)
            single[owner][rest] = value
        else:
            shared[key] = value
    for key in shared:
        if not any(key in known_options(name) for name in names):
            raise unknown(f"option of {', '.join(names)}", key, {k for name in names for k in known_options(name)})

    def of(name: str) -> Run:
        before = dict((resumed or {}).get(name, {}))
        begun = {key: value for key, value in before.items() if key in fields_of(Run)}
        own = {key: parse(Run, key, text) for key, text in single[name].items() if key in SOLVING}
        wanted = {key: value for key, value in before.get("set", {}).items() if key in known_options(name)}
        wanted |= {key: value for key, value in shared.items() if key in known_options(name)}
        wanted |= {key: value for key, value in single[name].items() if key not in SOLVING}
        read = {key: parse_option(name, key, v) if isinstance(v, str) else v for key, v in wanted.items()}
        return Run(**{**begun, **base, **own, "method": name, "settings": read})

    return [of(name) for name in names]


def _carry_out(
    runs: Sequence[Run],
    targets: Sequence[Path],
    report: Path,
    *,
    resume: bool,
    force: bool,
    data_dir: str | None,
) -> None:
    """Prepare all, so that a mistake in the last is found before the first has begun; then run and report."""
    from amity import record
    from amity.run import carry_out, check_target, prepare, silos_of, workplace

    if resume and force:
        raise InputError("--resume continues a run, --force replaces it: give one of them")
    if not resume:
        for target in targets:
            record.check_free(target, force=force)
    with cli_data.shown_fetching() as notify:
        silos = silos_of(runs[0], data_dir, notify)
    prepared = [prepare(run, silos) for run in runs]
    for ready, target in zip(prepared, targets, strict=True):
        check_target(ready, target, resume=resume, force=force)
    for note in dict.fromkeys(note for ready in prepared for note in ready.silos.notes):
        err.print(escape(f"note: {note}"), style="dim", highlight=False, soft_wrap=True)
    with workplace(runs[0]):
        for ready, target in zip(prepared, targets, strict=True):
            try:
                with shown(ready) as (notify, on_round):
                    carry_out(ready, out=target, resume=resume, force=force, notify=notify, on_round=on_round)
            except KeyboardInterrupt:
                err.print(
                    escape(f"interrupted: {target} is readable, and this continues it: {_again()}"),
                    highlight=False,
                    soft_wrap=True,
                )
                raise
    _report([record.read(target) for target in targets], report)


def _again() -> str:
    """The command that was given, so that it goes on with what is there."""
    words = [word for word in sys.argv[1:] if word not in ("--force", "--resume")]
    return shlex.join(["amity", *words, "--resume"])


def _report(records: Sequence[Any], path: Path) -> None:
    from amity.report import compare_table, table_width, write_report

    written = write_report(records, path)  # first: a record that cannot be read shows here
    table = compare_table(records, out.width if out.is_terminal else None)
    Console(width=max(out.width, table_width(table))).print(table)  # a file has no width; a terminal wraps the rest
    out.print(f"report: {escape(str(written))}", highlight=False, soft_wrap=True)


def _run_directories(path: Path) -> list[Path]:
    """The directory itself, or the runs inside a comparison's."""
    from amity import record

    if record.holds_run(path):
        return [path]
    inside = sorted(child for child in path.iterdir() if record.holds_run(child)) if path.is_dir() else []
    if not inside:
        raise InputError(f"{path} holds no run: give a directory that `amity run` or `amity compare` has written")
    return inside


if __name__ == "__main__":
    main()
