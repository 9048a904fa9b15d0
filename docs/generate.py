"""Write docs/methods.md and docs/settings.md from the code: docstrings, tables, options, tests, docs/results/.

python docs/generate.py           rewrites the pages
python docs/generate.py --check   exits with 1 if a page is not what the code says
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from amity.data.settings.registry import SETTINGS
from amity.data.settings.registry import options_of as setting_options
from amity.methods import METHODS, Entry, build, options_of

ROOT = Path(__file__).parents[1]

HEAD = """# Methods

Made from the code by `docs/generate.py`; a test fails when it is not up to date. `d` is the number of scalars of one
model with its buffers, `m` the number of silos. Traffic is per silo asked and round. Where a paper is wrong or silent,
[errata.md](errata.md) says what we do.

A row of the options: what to type after `--set`, the paper's symbol, the default, what is allowed, what it does.
"""

SETTINGS_HEAD = """# Settings

How a data set falls to silos. Made from the code by `docs/generate.py`; a test fails when it is not up to date.

    amity settings
    amity settings dirichlet:alpha=0.1 --data mnist --clients 20 --out picture.html
    amity run fedamp --data mnist --setting dirichlet:alpha=0.1,min_size=20 --clients 20

The first lists them, the second deals the data and shows who holds what, the third runs a method on it. Options stand
behind the name: a colon, then `key=value` with commas between. A run records the name with all options.

The same data set, setting, number of silos and seed always give the same silos; no training example goes to two. The
run directory's `manifest.json` has the counts per silo and class, a hash of the data, and in its notes what could not
be done as planned; the report shows it as a picture. Where a setting proposes a number of silos or a share of them to
sample per round, `--clients` and `--participation` win. Validation data are the method's part (`--val-fraction`).
"""


def module_of(entry: Entry) -> str:
    """The module whose docstring explains a method: the wrapper's, if it has one."""
    return (entry.wrap or entry.make).__module__


def tests_of(file: Path) -> list[str]:
    """The names of the tests that carry a method's invariants."""
    names = {name for name in re.findall(r"^def (test_[a-z]\w*?_\d\w*)\(", file.read_text(encoding="utf-8"), re.M)}
    return sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])


def explanation(module: str) -> str:
    """A module's docstring as Markdown: indented equations are code blocks as they stand."""
    return inspect.cleandoc(sys.modules[module].__doc__ or "")


def options(known: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        f"| `{o['name']}` | {o['symbol']} | `{o['default']}` | {o['rule']} | {o['help'].replace('|', ',')} |"
        for o in known
    ]
    if not rows:
        return "No options of its own."
    return "\n".join(["| option | symbol | default | allowed | meaning |", "|---|---|---|---|---|", *rows])


def test_file(name: str, entry: Entry) -> Path | None:
    """Where a method is tested: by its name, else by its module's."""
    stems = [name.replace("-", "_"), module_of(entry).rpartition(".")[2]]
    stems += ["finetuned"] if entry.wrap else []
    files = [ROOT / "tests" / "methods" / f"test_{stem}.py" for stem in stems]
    return next((file for file in files if file.exists()), None)


def section(names: list[str]) -> str:
    """One section for all methods that one module explains."""
    entry = METHODS[names[0]]
    module = module_of(entry)
    parts = [f"## {', '.join(names)}", f"`src/{module.replace('.', '/')}.py`", explanation(module)]
    for name in names:
        row = METHODS[name]
        solver = build(name).solver
        protocol = f"{solver.optimizer}, rate {solver.rate:g}, batch {solver.batch}"
        protocol += f", momentum {solver.momentum:g}" if solver.momentum else ""
        parts.append(
            f"**`{name}`**: {row.title} ({row.paper}). Down {row.down}, up {row.up}. Evaluated: {row.evaluated}. "
            f"`auto`: {protocol}."
        )
        parts.append(options(options_of(name)))
    files = dict.fromkeys(file for name in names if (file := test_file(name, METHODS[name])) is not None)
    for file in files:
        listed = ", ".join(f"`{test}`" for test in tests_of(file))
        parts.append(f"Tests, `{file.relative_to(ROOT)}`: {listed or 'see there'}.")
    results = ROOT / "docs" / "results" / f"{module.rpartition('.')[2]}.md"
    if results.exists():
        parts.append(results.read_text(encoding="utf-8").strip())
    return "\n\n".join(parts)


def page() -> str:
    by_module: dict[str, list[str]] = {}
    for name, entry in METHODS.items():
        by_module.setdefault(module_of(entry), []).append(name)
    return "\n\n".join([HEAD.rstrip(), *(section(names) for names in by_module.values())]) + "\n"


def settings_page() -> str:
    by_module: dict[str, list[str]] = {}
    for name, entry in SETTINGS.built_in.items():  # pages are about Amity's own, whatever else is installed
        by_module.setdefault(entry.make.__module__, []).append(name)
    parts = [SETTINGS_HEAD.rstrip()]
    for module, names in by_module.items():
        parts += [f"## {', '.join(names)}", f"`src/{module.replace('.', '/')}.py`", explanation(module)]
        for name in names:
            entry = SETTINGS[name]
            paper = "" if entry.paper == "-" else f" ({entry.paper})"
            share = "all of them" if entry.participation == 1 else f"{entry.participation:g} of them"
            count = "as many silos as the data have" if name == "natural" else f"{entry.clients} silos"
            usual = f"Unless told otherwise: {count}, {share} in each round."
            parts.append(f"**`{name}`**: {entry.description}{paper}. {usual}")
            parts.append(options(setting_options(name)))
    return "\n\n".join(parts) + "\n"


PAGES = {"methods.md": page, "settings.md": settings_page}


def main() -> None:
    for name, make in PAGES.items():
        file = ROOT / "docs" / name
        if "--check" not in sys.argv[1:]:
            file.write_text(make(), encoding="utf-8")
        elif file.read_text(encoding="utf-8") != make():
            sys.exit(f"docs/{name} is not what the code says: run `python docs/generate.py`")


if __name__ == "__main__":
    main()
