"""Write docs/tried.md from docs/tried.json, which `make soak` writes: no number is typed by hand.

python docs/tried.py    rewrite the page
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
DATA, PAGE = DOCS / "tried.json", DOCS / "tried.md"

HEAD = """# What was tried at random

Tests try what somebody has thought of. `make soak` tries what nobody has: options, moments, damage and bytes that are
drawn at random, thousands of them, in less than an hour. This page is its tally. It is made by `docs/tried.py` from
`docs/tried.json`, which the soak writes; a test fails when it is not up to date. What fails is here as it is.

    make soak                                            # all phases, and this page
    .venv/bin/python -m benchmarks.soak kills --seed 7   # one phase, with other draws
    .venv/bin/python -m benchmarks.soak --quick          # about a minute for each

Everything is drawn from the seed, so that the same seed tries the same again; moments in time are the exception.
"""

SECTIONS: Mapping[str, tuple[str, str]] = {
    "runs": (
        "Small runs of random options",
        "Methods, settings, models, engines, who takes part, endings, protections: each drawn. Every run is made "
        "twice, the second time stopped at a random event and resumed with another number of workers. Both must "
        "come to the same end bit by bit (models, cloud models, predictions, collaboration weights, every number "
        "of every round), be read without complaint, have finite numbers alone, and give a report. Combinations "
        "that mean nothing must be refused in one line, with nothing written.",
    ),
    "kills": (
        "Simulations killed with -9",
        "`amity run` in a process of its own, killed and resumed until it comes to its end. Most of these "
        "processes are forks of one that has loaded the libraries, one in fourteen begins as `python -m amity`. "
        "More than half of the blows wait for a checkpoint to be written; those that struck inside it are told "
        "from the folder that such a write leaves. In the end models, rounds, weights and predictions must equal "
        "those of a run that nobody has killed, bit for bit.",
    ),
    "federation": (
        "A real federation, killed with -9",
        "A server and three silos as processes of their own over mutual TLS; in every round one of their "
        "processes, or all of a silo's, or all of the server's, are killed. Every personal model must equal the "
        "simulator's, every round must be on record once, no silo may have trained a round twice, and no process "
        "may be left.",
    ),
    "damage": (
        "Run directories, damaged",
        "Every file of three run directories, each with the run beside it in which every silo trains alone: one "
        "has ended, one was interrupted, one was killed. A bit is flipped; the file is cut short, emptied or "
        "removed; or it has foreign content. Then the run is resumed, reported, predicted with, its model is "
        "exported, and the live page looks at it. This must be refused in lines for its user, with the directory "
        "as it was; or come to what it comes to without damage; or say what is wrong.",
    ),
    "options": (
        "Options with wrong values",
        "The tree of commands is walked, and every option and argument of every command is given values of many "
        "kinds: empty, blanks, NaN, infinity, huge, negative, other scripts, control characters, paths that do "
        "not exist, folders, devices, markup. Numbers that are none and words that are not in a list must be "
        "refused: exit code 2, a clear line, no control characters, nothing written. Text and paths may be taken; "
        "then the command must come to its end. Never a traceback.",
    ),
    "files": (
        "Files and messages, mangled",
        "Whole files of every format that Amity reads, and messages, with one to four changes: bits, cuts, "
        "repeats, numbers near the limits of their type, pickles, markup, paths, deep nesting. What is still "
        "right may be read; everything else must be refused in one line, within ten seconds and three GiB.",
    ),
}


def page() -> str:
    """Return the page about what is recorded."""
    found: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    parts = [HEAD.strip(), "\n".join(summary(found))]
    for name, (title, words) in SECTIONS.items():
        if name in found:
            parts += [f"## {title}", wrapped(words), "\n".join(section(found[name]))]
    return "\n\n".join(parts) + "\n"


def summary(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of all phases."""
    yield "| | tried | failed | minutes |"
    yield "|---|---:|---:|---:|"
    for name, (title, _) in SECTIONS.items():
        if name in found:
            phase = found[name]
            yield f"| {title} | {phase['tried']:,} | {phase['failed']} | {phase['seconds'] / 60:.1f} |"


def section(phase: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a phase has counted, and what has failed."""
    yield "| how it came out | times |"
    yield "|---|---:|"
    for what, count in phase["counts"].items():
        yield f"| {what} | {count:,} |"
    machine = phase["machine"]
    told = f"Amity {machine['amity']}, Python {machine['python']}, torch {machine['torch']}, {machine['system']}"
    short = " A short run (`--quick`)." if phase["quick"] else ""
    yield f"\nSeed {phase['seed']}, {machine['cores']} cores, {told}.{short}"
    if phase["failed"]:
        yield f"\n**{phase['failed']} failed**, of which:\n"
        yield from (f"- `{words.replace('`', chr(39))}`" for words in phase["failures"])


def wrapped(words: str) -> str:
    """Return a paragraph in lines of the usual length."""
    import textwrap

    return textwrap.fill(words, 125, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
