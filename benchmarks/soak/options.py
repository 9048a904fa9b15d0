"""Every option of every command with wrong values: refused in a clear line, exit code 2, and nothing written.

The tree of commands says which options and arguments there are. Each is given values of many kinds beside words that
are right by themselves. A number that is none, is not finite or is negative must be refused, and so must a word that
is not in an option's list. Text and paths may be taken; then the command must come to its end. In no case may there
be a traceback, a control character in what is said, a file where the command was refused, or more than some seconds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amity.cli.app import command
from benchmarks.soak.command import Said, alone_on_disk, call, limited
from benchmarks.soak.tally import Tally
from benchmarks.soak.world import World

PER_OPTION, QUICK = 2, 1  # values that each option is given

_RUN = "--data synthetic --setting iid --clients 2 --model mlr --rounds 1 --epochs 1 --per-silo 10"
BASES: Mapping[str, tuple[str, str]] = {
    "": ("", ""),
    "run": ("separate", f"{_RUN} --workers 1 --no-alone --out made"),
    "compare": ("separate fedavg", f"{_RUN} --workers 1 --no-alone --out made"),
    "advise": ("fedavg", f"{_RUN} --probe-rounds 1 --parts 2 --metric r2"),
    "tune": ("fedavg", f"{_RUN} --trials 1 --trial-rounds 1 --search lr=0.1,0.2 --metric r2 --out made"),
    "report": ("run", "--out made.html"),
    "watch": ("run", ""),
    "predict": ("run", "--data new.csv --silo east --out made.csv"),
    "export": ("run", "--to card --silo east --out made.md"),
    "methods": ("fedavg", ""),
    "data list": ("", ""),
    "datasets": ("", ""),
    "data fetch": ("nonesuch", ""),
    "data verify": ("folder:clinics", ""),
    "data schema": ("folder:clinics", ""),
    "settings": ("iid", "--data synthetic --clients 2"),
    "reproduce": ("fedamp/table3", "--size quick --no-run --out made"),
    "bench": ("nonesuch", ""),
    "federation init": ("consortium.toml", "--hub made"),
    "federation join": ("south", "--site made"),
    "federation add": ("north.request", "--hub nowhere"),
    "federation renew": ("nobody", "--hub hub"),
    "federation remove": ("nobody", "--hub hub"),
    "federation server": ("nowhere", ""),
    "federation silo": ("nowhere", ""),
    "federation submit": ("RUN.toml", "--hub nowhere --yes --detach"),
    "federation schema": ("RUN.toml", "--hub hub --yes --detach"),
    "federation status": ("", "--hub hub"),
    "federation stop": ("first", "--hub hub"),
    "federation logs": ("first", "--hub hub"),
    "federation results": ("first", "--hub hub"),
    "federation contract": ("RUN.toml", ""),
    "federation approve": ("first", "--site site --yes"),
    "federation audit": ("hub", ""),
    "federation check": ("nowhere", "--patience 1"),
    "federation predict": ("site", "first --data new.csv"),
    "federation export": ("site", "first --to card"),
    "federation verdict": ("site", "first"),
    "federation leave": ("site", "first"),
    "federation try": ("", "--keep run"),
}
"""Words that are right beside the option that is tried: arguments, then options.

A search and a probe would take long: they are asked for a score that their data do not have, which is refused last.
"""

ROOM = 3 << 30  # bytes that a command may take

SERVE = {"watch"}  # what is right here goes on until it is stopped
NO_NUMBERS = [
    *("", " ", "nan", "NaN", "inf", "-inf", "1e999", "-1", "-0.5", "x", "1 2", "[1]", "{}", "½", "1;2", "0x10", "1,5"),
    *("\x1b[31mred", "\udcff", "1\n2", "--", "Nil", "9" * 5000, "+-1", "1e", ".", "true", "∞"),
]
ODD_NUMBERS = ["0", "9" * 30, "1e308", "1e-320", "１", "1_0", "2147483648", "9223372036854775808", " 1 ", "1e3"]
NO_WORDS = ["", " ", "no-such-word", "nan", "-1", "\x1b[31mred", "\udcff", "a\nb", "x" * 300, "<b>", "*", "auto,auto"]
TEXTS = [
    *("", " ", "no/such/place", "run", "new.csv", "new.csv/below", "x" * 300, "/dev/null", "/dev/full", "clinics"),
    *("/proc/self/nonesuch", "a\nb", "\x1b[31mred\x1b[0m", "\udcff", "<script>alert(1)</script>", "../..", "~"),
    *("%s%n{0}", "NaN", "-1", "\u202egnp.exe", "é" * 120, "folder:", "folder:nowhere", "folder:run", "=", "a=b", "=1"),
    *("RUN.toml", "options.toml", "consortium.toml", "hub", "site", "9" * 400, "1:", ":", "3:1", "a:b", "0:1000000000"),
]


class Tried(NamedTuple):
    """One option with one value."""

    path: str  # of the command
    option: str  # or the argument's name
    value: str
    words: tuple[str, ...]
    must: bool  # be refused


def soak(tally: Tally, folder: Path) -> None:
    """Try every option of every command."""
    draw = random.Random(f"options {tally.seed}")
    with alone_on_disk(folder), limited(ROOM):
        world = World(folder)
        for one in trials(draw, QUICK if tally.quick else PER_OPTION):
            said = call(world.folder, *one.words, seconds=200.0, wall=6.0 if one.path in SERVE else None)
            judge(tally, one, said, world.changed())
            tally.tried += 1


def trials(draw: random.Random, each: int) -> Iterator[Tried]:
    """Yield what is tried: of every option `each` values, and what is wrong with the call as a whole."""
    for path, known in commands(command()):
        arguments, options = (text.split() for text in BASES.get(path, ("", "")))
        head = path.split()
        for param in known.params:
            named = param.param_type_name == "option"
            if named and param.opts[0] in ("--help", "-h", "--help-all", "--version"):
                continue
            if named and (param.is_flag or param.count):
                yield Tried(path, param.opts[0], "x", (*head, *arguments, *options, f"{param.opts[0]}=x"), True)
                continue
            must, may = values_of(param)
            chosen = draw.sample(must, min(len(must), each)) if must else []
            for value in (*chosen, *draw.sample(may, min(len(may), max(1, each - len(chosen) // 2)))):
                words = [*arguments, *options, f"{param.opts[0]}={value}"] if named else [value, *options]
                yield Tried(path, param.opts[0] if named else param.name, value, (*head, *words), value in chosen)
        for value in ("--no-such-option", "--no-such-option=1", "-q"):
            yield Tried(path, "an unknown option", value, (*head, *arguments, *options, value), True)


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield every command with the words that call it; groups too, for they have options of their own."""
    yield " ".join(path), group
    for name, one in getattr(group, "commands", {}).items():
        yield from commands(one, (*path, name))


def values_of(param: Any) -> tuple[Sequence[str], Sequence[str]]:
    """Return values that an option must refuse, and others that it may take."""
    takes = str(param.metavar or "")
    if set(takes.split("|")) & {"N", "X"}:
        return NO_NUMBERS, ODD_NUMBERS
    if takes == "SECONDS":  # which may have no end
        return [value for value in NO_NUMBERS if value not in ("inf", "1e999")], ["0.001", "inf"]
    if takes and takes == takes.lower() and "|" in takes and ":" not in takes:
        return NO_WORDS, []
    return [], TEXTS


def judge(tally: Tally, one: Tried, said: Said, changed: Sequence[str]) -> None:
    """Count how a call came out, and write down what must not be."""
    called = f"amity {one.path} {one.option}={one.value[:60]!r}"
    if said.code == 2:
        tally.add("refused, exit code 2")
        lines = said.err.splitlines()
        if not said.refused:
            tally.fail(f"{called}: not a line for its user: {said.err[-300:]!r}")
        elif any(not line.isprintable() for line in lines) or len(said.err) > 3000 * max(1, len(lines)):
            tally.fail(f"{called}: control characters, or very much, in: {said.err[:300]!r}")
        elif (
            one.option.strip("-").replace("-", "_") in said.err.replace("-", "_") or one.value.strip()[:20] in said.err
        ):
            tally.add("of these, with a line that names the option or the value")
        if changed and one.option != "--log-file":
            tally.fail(f"{called}: refused, and yet these are not as they were: {list(changed)[:5]}")
    elif said.code == 0 or (said.code == -1 and one.path in SERVE):
        tally.add("taken, and the command came to its end")
        if one.must:
            tally.fail(f"{called}: taken, and must be refused")
    else:
        tally.fail(f"{called}: exit code {said.code}: {said.err.strip()[-300:]}")
