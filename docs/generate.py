"""Write docs/methods.md from the code: docstrings, the methods table, declared options, tests, docs/results/.

python docs/generate.py           rewrites the page
python docs/generate.py --check   exits with 1 if the page is not what the code says
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from amity.methods import METHODS, Entry, build, options_of

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "methods.md"

HEAD = """# Methods

Made from the code by `docs/generate.py`; a test fails when it is not up to date. `d` is the number of scalars of one
model with its buffers, `m` the number of silos. Traffic is per silo asked and round. Where a paper is wrong or silent,
[errata.md](errata.md) says what we do.

A row of the options: what to type after `--set`, the paper's symbol, the default, what is allowed, what it does.
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


def options(name: str) -> str:
    rows = [
        f"| `{o['name']}` | {o['symbol']} | `{o['default']}` | {o['rule']} | {o['help'].replace('|', ',')} |"
        for o in options_of(name)
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
        parts.append(options(name))
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


def main() -> None:
    if "--check" in sys.argv[1:]:
        if PAGE.read_text(encoding="utf-8") != page():
            sys.exit("docs/methods.md is not what the code says: run `python docs/generate.py`")
        return
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
