"""The package's import arrows: who may know whom, and what `import amity` may cost."""

import ast
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import amity

ROOT = Path(amity.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

HEAVY = (
    "matplotlib",
    "mlflow",
    "nvflare",
    "opacus",
    "optuna",
    "pandas",
    "plotly",
    "ray",
    "sklearn",
    "starlette",
    "tenseal",
    "tensorboard",
    "uvicorn",
)

# The rooms around the three that must not know them: data, records, pages and whoever runs something.
OUTER = {"data", "record", "report", "papers", "cli", "api", "jobs", "prepare", "resolve", "running", "silo_process"}
OUTER |= {"site"}
OUTER |= {"comparison", "repeats", "result", "logs", "testing", "checks", "predicting", "tracking", "trials", "tuning"}
OUTER |= {"advising", "watch", "worth", "data/schema"}

# Part -> the parts of Amity that it may import at runtime. Parts not listed here are bound by FORBIDDEN only.
#
#     errors, metric, silo_data, abilities <- contract <- learn <- methods
#                          contract <- learn <- federation <- engines
#
ALLOWED = {
    "errors": set(),
    "metric": {"errors"},
    "silo_data": set(),
    "abilities": set(),
    "contract": {"abilities", "errors", "silo_data"},
    "small_files": {"finite"},
    "finite": set(),
    "config": {"errors", "metric", "small_files", "finite"},
    "free_memory": {"errors"},
    "logs": {"errors"},
    "statistics": {"metric"},
    "worth": {"statistics", "metric"},
    "learn": {"contract", "errors", "metric"},
    "methods": {"contract", "errors", "config", "learn"},
    "models": {"contract", "errors", "config"},
    "federation": {"contract", "errors", "config", "learn", "free_memory", "metric", "finite"},
    "engines": {"contract", "errors", "config", "learn", "free_memory", "federation", "small_files"},
    "data": {"contract", "errors", "config", "learn", "free_memory", "data/schema"},
    "data/schema": {"contract", "errors", "small_files", "finite"},
}
FORBIDDEN = {
    "methods": {"engines", "federation"} | OUTER,
    "federation": {"methods", "engines"} | OUTER,
    "engines": {"methods"} | OUTER,
    "hub": {"engines", "engines/flare", "data", "cli", "api", "jobs", "running", "watch"},
    "site": {"engines/flare", "hub", "cli", "watch"},
    "record": {"methods", "engines", "data", "data/schema", "cli", "api", "jobs", "running", "watch"},
    "report": {"methods", "engines", "data", "data/schema", "cli", "api", "jobs", "running", "watch"},
    "watch": {"engines/flare", "cli", "api", "jobs", "running"},  # it reads what others write, and starts nothing
}
# Where methods, federation and engines meet.
MEETING_PLACES = {"api", "jobs", "prepare", "resolve", "running", "silo_process"}
MEETING_PLACES |= {"checks"}  # look at silos and hubs from outside
MEETING_PLACES |= {"site"}  # where a silo's own data and code meet its side of a federation
MEETING_PLACES |= {"hub", "engines/flare"}  # where a coordinator's runs meet the server's side, and both meet a network
MEETING_PLACES |= {"testing"}  # puts methods to their laws over every engine
FEDERATION_COMMANDS = "cli/federation/"  # set up and run the engine between organisations

FLARE = "engines/flare"
SCHEMA = "data/schema"
APART = (FLARE, SCHEMA)  # folders that are parts of their own

SILO_SIDE = {"federation/silo.py", "federation/stored_silo.py", "federation/hosting.py", "federation/secrets.py"}
SERVER_SIDE = {
    "federation/server.py",
    "federation/consulting.py",
    "federation/contact.py",
    "federation/distant.py",
    "federation/stored_server.py",
    "federation/admission.py",
    "federation/robust.py",
    "federation/resume.py",
    "federation/course.py",
}


def part_of(file: Path) -> str:
    """The part of Amity a file belongs to: a module of the package, or a folder with all its files.

    The engine between organisations is a part of its own: it also starts what runs at either end of it. So is the
    meaning of columns: a server merges what silos say of theirs, and knows nothing else of data.
    """
    parts = file.relative_to(ROOT).parts
    folder = "/".join(parts[:2])
    return folder if folder in APART else parts[0].removesuffix(".py")


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
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "import_module":
            names |= {
                one.value for one in node.args[:1] if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
    return names


@cache
def imports_of(file: Path) -> set[str]:
    package = ("amity", *file.relative_to(ROOT).parent.parts)
    return imported(file.read_text(encoding="utf-8"), package)


def parts_known_to(file: Path) -> set[str]:
    """Parts of Amity that a file imports; "amity" itself stands for the package's public names."""
    known = set()
    for name in imports_of(file):
        top, *rest = name.split(".")
        if top == "amity" and "/".join(rest[:2]) in APART:
            known.add("/".join(rest[:2]))
        elif top == "amity":
            inside = rest and any((ROOT / f"{rest[0]}{suffix}").exists() for suffix in ("", ".py"))
            known.add(rest[0] if inside else "amity")
    return known - {part_of(file)}


def test_the_reader_of_imports() -> None:
    source = """
from typing import TYPE_CHECKING
import torch.nn
from . import vectors
from ..engines.local.simulate import simulate
if TYPE_CHECKING:
    from amity.learn.task import Task
else:
    import amity.learn.train
def late():
    from amity import running
    importlib.import_module("ray")
    importlib.import_module(name)
"""
    assert imported(source, ("amity", "methods")) == {
        "typing.TYPE_CHECKING",
        "torch.nn",
        "amity.methods.vectors",
        "amity.engines.local.simulate.simulate",
        "amity.learn.train",
        "amity.running",
        "ray",
    }


def file_of(name: str) -> Path | None:
    """The file that a dotted name of Amity is in: a module's own, or that of a name inside it."""
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        place = ROOT.joinpath(*parts[1:end])
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.exists():
                return file
    return None


def reached_from(first: Path) -> set[str]:
    """All files of Amity that come with this one when it is imported, itself among them."""
    reached: set[Path] = set()
    ahead = {first}
    while ahead:
        reached |= ahead
        names = {name for file in ahead for name in imports_of(file) if name.split(".")[0] == "amity"}
        ahead = {file for file in map(file_of, names) if file is not None} - reached
    return set(map(label, reached))


@pytest.mark.parametrize("file", FILES, ids=label)
def test_arrows_point_one_way(file: Path) -> None:
    part, known = part_of(file), parts_known_to(file)
    assert "cli" not in known or part == "__main__", "nobody imports cli"
    if part not in ("cli", "__main__"):
        assert "amity" not in known, "inside the package, import the module that defines the name"
    if part in ALLOWED:
        assert known <= ALLOWED[part], f"{part} may import {sorted(ALLOWED[part])} only"
    assert not known & FORBIDDEN.get(part, set()), f"{part} must not import {sorted(FORBIDDEN[part])}"
    if part not in MEETING_PLACES and not label(file).startswith(FEDERATION_COMMANDS):
        met = known & {"methods", "federation", "engines"}
        assert "methods" not in met or met == {"methods"}, f"methods meet the others in {sorted(MEETING_PLACES)} only"
        assert not known & {"engines", FLARE}, f"only {sorted(MEETING_PLACES)} know engines"


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


@pytest.mark.parametrize(
    ("side", "other"),
    [*((file, SERVER_SIDE) for file in sorted(SILO_SIDE)), *((file, SILO_SIDE) for file in sorted(SERVER_SIDE))],
)
def test_the_two_sides_do_not_know_each_other(side: str, other: set[str]) -> None:
    """Not by a detour either: what they share are messages, the plan, and what lies below."""
    assert not reached_from(ROOT / side) & other


def test_both_sides_speak_the_same_messages() -> None:
    for side in ("federation/silo.py", "federation/server.py"):
        assert {"federation/messages.py", "federation/plan.py"} <= reached_from(ROOT / side)


def test_packages_of_an_engine_a_tracker_or_a_search_stay_in_their_folder() -> None:
    found: dict[str, set[str]] = {
        "ray": set(),
        "nvflare": set(),
        "optuna": set(),
        "mlflow": set(),
        "tensorboard": set(),
        "opacus": set(),
        "tenseal": set(),
    }
    for file in FILES:
        for name in imports_of(file):
            found.get(name.split(".")[0], set()).add(label(file))
    assert found["ray"] and all(user.startswith("engines/ray/") for user in found["ray"]), found
    assert found["nvflare"] and all(user.startswith("engines/flare/") for user in found["nvflare"]), found
    assert found["optuna"] and all(user.startswith("tuning/") for user in found["optuna"]), found
    assert found["opacus"] == {"learn/accounting.py"}, found
    assert found["tenseal"] == {"learn/ciphers.py"}, found
    assert found["mlflow"] == {"tracking/to_mlflow.py"} and found["tensorboard"] == {"tracking/to_tensorboard.py"}, (
        found
    )


def test_import_is_light() -> None:
    program = f"import sys, amity; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_all_equals_the_public_names() -> None:
    """The names are loaded when asked for: each must be there, and nothing else may be public."""
    listed = [name for names in amity._HOMES.values() for name in names]
    assert sorted(amity.__all__) == sorted(listed)
    assert amity.__all__ == sorted(amity.__all__) and len(amity.__all__) <= 30
    assert all(getattr(amity, name).__name__ for name in amity.__all__ if name not in ("Model", "State"))
    submodules = {info.name for info in pkgutil.iter_modules(amity.__path__)}
    imported_for_itself = {"TYPE_CHECKING", "Any", "annotations", "importlib", "os"}
    public = {name for name in vars(amity) if not name.startswith("_")} - submodules - imported_for_itself
    assert public <= set(amity.__all__)


def test_help_needs_no_torch() -> None:
    program = (
        "import sys; sys.argv = ['amity', '--help']\n"
        "from amity.cli.app import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0 False", done.stdout + done.stderr
