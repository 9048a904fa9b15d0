"""The package's import arrows: who may know whom, and what `import amity` may cost."""

import ast
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import amity

ROOT = Path(amity.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

HEAVY = ("matplotlib", "nvflare", "pandas", "plotly", "ray", "sklearn")

# Outer parts, which the inner ones do not know.
OUTER = {"data", "record", "report", "run", "cli", "bench"}

# Part -> the parts of Amity that it may import at runtime. Parts not listed here are bound by FORBIDDEN only.
ALLOWED = {
    "contract": {"errors"},
    "errors": set(),
    "streams": {"contract"},
    "options": {"errors"},
    "config": {"errors", "options"},
    "matrices": {"contract"},
    "vectors": {"contract", "streams", "options"},
    "descent": {"contract"},
    "metrics": set(),
    "task": {"contract", "streams", "options", "vectors", "descent", "metrics"},
    "train": {"contract", "streams", "options", "vectors", "descent", "task"},
    "attention": {"contract", "streams", "options", "vectors"},
    "cloud": {"contract", "attention", "matrices", "task", "train", "vectors"},
}
FORBIDDEN = {
    "methods": {"engines"} | OUTER,
    "engines": {"methods"} | OUTER,
}
MEETING_PLACES = {"run", "cli", "bench", "__init__"}  # only these may see both methods and engines


def part_of(file: Path) -> str:
    """The part of Amity a file belongs to: a module of the package, or a folder with all its files."""
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


def label(file: Path) -> str:
    return str(file.relative_to(ROOT))


def runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes, function bodies too, but not what stands under `if TYPE_CHECKING`."""
    yield node
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        children: list[ast.AST] = list(node.orelse)
    else:
        children = list(ast.iter_child_nodes(node))
    for child in children:
        yield from runtime_nodes(child)


def imported(source: str, package: tuple[str, ...]) -> set[str]:
    """Dotted names that a module of this package imports at runtime, as far down as the text tells."""
    names = set()
    for node in runtime_nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *filter(None, [node.module])))
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def imports_of(file: Path) -> set[str]:
    package = ("amity", *file.relative_to(ROOT).parent.parts)
    return imported(file.read_text(encoding="utf-8"), package)


def parts_known_to(file: Path) -> set[str]:
    """Parts of Amity that a file imports; "amity" itself stands for the package's public names."""
    known = set()
    for name in imports_of(file):
        top, *rest = name.split(".")
        if top == "amity":
            inside = rest and any((ROOT / f"{rest[0]}{suffix}").exists() for suffix in ("", ".py"))
            known.add(rest[0] if inside else "amity")
    return known - {part_of(file)}


def test_the_reader_of_imports() -> None:
    source = """
from typing import TYPE_CHECKING
import torch.nn
from . import vectors
from ..engines.simulate import simulate
if TYPE_CHECKING:
    from amity.task import Task
else:
    import amity.train
def late():
    from amity import run
"""
    assert imported(source, ("amity", "methods")) == {
        "typing.TYPE_CHECKING",
        "torch.nn",
        "amity.methods.vectors",
        "amity.engines.simulate.simulate",
        "amity.train",
        "amity.run",
    }


@pytest.mark.parametrize("file", FILES, ids=label)
def test_arrows_point_one_way(file: Path) -> None:
    part, known = part_of(file), parts_known_to(file)
    assert "cli" not in known, "nobody imports cli"
    if part != "cli":
        assert "amity" not in known, "inside the package, import the module that defines the name"
    if part in ALLOWED:
        assert known <= ALLOWED[part], f"{part} may import {sorted(ALLOWED[part])} only"
    assert not known & FORBIDDEN.get(part, set()), f"{part} must not import {sorted(FORBIDDEN[part])}"
    if part not in MEETING_PLACES:
        assert not {"methods", "engines"} <= known, "only run.py meets methods and engines"


@pytest.mark.parametrize("part", FORBIDDEN)
def test_no_detour_around_the_arrows(part: str) -> None:
    arrows: dict[str, set[str]] = {}
    for file in FILES:
        arrows.setdefault(part_of(file), set()).update(parts_known_to(file))
    reached, ahead = set(), {part}
    while ahead:
        reached |= ahead
        ahead = {known for step in ahead for known in arrows.get(step, set())} - reached
    assert not reached & FORBIDDEN[part], "reached through another part of the package"


def test_nvflare_is_imported_in_one_file() -> None:
    users = [label(f) for f in FILES if any(name.split(".")[0] == "nvflare" for name in imports_of(f))]
    assert len(users) <= 1, users


def test_import_is_light() -> None:
    program = f"import sys, amity; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_all_equals_the_public_names() -> None:
    """The names are loaded when asked for: each must be there, and nothing else may be public."""
    listed = [name for names in amity._HOMES.values() for name in names]
    assert sorted(amity.__all__) == sorted(listed)
    assert all(getattr(amity, name).__name__ for name in amity.__all__ if name not in ("Model", "State"))
    submodules = {info.name for info in pkgutil.iter_modules(amity.__path__)}
    imported_for_itself = {"TYPE_CHECKING", "Any", "annotations", "importlib"}
    public = {name for name in vars(amity) if not name.startswith("_")} - submodules - imported_for_itself
    assert public <= set(amity.__all__)


def test_help_needs_no_torch() -> None:
    program = (
        "import sys; sys.argv = ['amity', '--help']\n"
        "from amity.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0 False", done.stdout + done.stderr
