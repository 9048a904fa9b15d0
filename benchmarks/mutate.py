"""Break the method code in small ways, one at a time, and see whether the tests notice.

    python benchmarks/mutate.py [--tool 60] [--seed 0] [--workers 2] [--json FILE] [--only TEXT]

Two kinds of mutants. The tool's: a seeded sample of everything that cosmic-ray's own operators can do inside the
functions of `methods/`. Ours: mistakes that people make, each a replacement of one piece of text.
A mutant is killed when the tests of its file, or the laws for its method, fail. Survivors are listed. Mutants that
cannot be told from the original are listed apart, with the reason.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "amity"
TIMEOUT = 240.0  # seconds; a mutant that hangs is noticed too


class Mutant(NamedTuple):
    """One broken version of one file."""

    file: str  # below src/amity
    what: str
    code: str
    kind: str  # "tool" or "ours"


OURS: list[tuple[str, str, str, str]] = [
    ("methods/fedavg.py", 'if self.weighting == "samples"', 'if self.weighting == "uniform"', "swap the weightings"),
    ("methods/fedavg.py", "return client, train(task, down, turn)", "return client, dict(down)", "do not train"),
    ("methods/fedprox.py", "terms=terms", "terms=[]", "drop the prox term"),
    ("methods/fedprox.py", "proximal(self.mu,", "proximal(-self.mu,", "flip the sign of the prox term"),
    ("methods/fedamp.py", "start=self.start", 'start="own"', "never start from the cloud model"),
    (
        "methods/fedamp.py",
        "self.attraction / cloud",
        "self.attraction * cloud",
        "multiply by alpha instead of dividing",
    ),
    ("methods/fedamp.py", "self.grad_factor * alpha", "alpha", "forget grad_factor"),
    ("methods/heurfedamp.py", "self.sigma * similar", "-self.sigma * similar", "attend to the least similar"),
    ("methods/heurfedamp.py", 'origin=server.get("origin")', "origin=None", "ignore similarity_on"),
    ("methods/pfedatt.py", "self.sigma**2", "self.sigma", "sigma instead of its square"),
    ("methods/pfedatt.py", "min(k, len(members))", "len(members)", "keep everybody"),
    ("methods/fedacs.py", "(1 - self.damping)", "self.damping", "wrong share of the own model"),
    ("methods/fedacs.py", "pull=0.0", "pull=1.0", "pull towards the cloud model"),
    ("methods/apple.py", "step_core(relations[me] * g)", "step_core(g)", "core without p_ii"),
    ("methods/apple.py", '{"cores": cores[me].clone(),', '{"cores": relations @ cores,', "upload the personal model"),
    (
        "methods/apple.py",
        'penalty * (relations - client["prior"])',
        "penalty * relations",
        "penalty without its centre",
    ),
    ("methods/apple.py", '("wanted",)', "()", "do not roll the request back"),
    ("methods/apple.py", "score = torch.where(state", "torch.where(state", "never prefer the unseen"),
    ("methods/wrappers.py", "return train(task, model, turn)", "return model", "do not fine-tune"),
    ("methods/wrappers.py", "{**state, **model_of(upload)}", "{**client}", "keep the old copy"),
    ("methods/scaffold.py", '("control",)', "()", "do not roll the control variate back"),
    ("methods/_attention.py", "(total / kept.sum(1))[:, None]", "1.0", "do not renormalise"),
    ("methods/_attention.py", "rank.fill_diagonal_(math.inf)", "rank", "let the client itself lose"),
    ("methods/_attention.py", "same + 1 if counts_self else same", "same", "ignore counts_self"),
]
"""(file, text, its replacement, what it is): every text must stand in its file exactly once."""

EQUIVALENT = {
    r"if coin <= chance else 0": "a draw that equals the chance exactly has probability 0",
    r'NumberReplacer.*rng\("\w+", *-?\d\)': "another number of a stream gives another stream, as good as this one",
}
"""What a mutant's description matches -> why no test could tell it from the original."""


def ours() -> list[Mutant]:
    mutants = []
    for file, old, new, what in OURS:
        code = (SOURCE / file).read_text(encoding="utf-8")
        if code.count(old) != 1:
            sys.exit(f"{file}: {old!r} stands there {code.count(old)} times, not once: mend the list of mutants")
        mutants.append(Mutant(file, f"{what}: {old} -> {new}", code.replace(old, new), "ours"))
    return mutants


Span = tuple[tuple[int, int], tuple[int, int]]


def _span(node: ast.stmt | ast.expr) -> Span:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def counting(code: str) -> tuple[list[Span], list[Span]]:
    """Where mutations count, and where they do not: bodies of functions, but no annotations, texts and messages."""
    inside, outside = [], []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef):
            inside += [_span(statement) for statement in node.body]
            outside += [_span(argument.annotation) for argument in node.args.args if argument.annotation]
            outside += [_span(node.returns)] if node.returns else []
        elif isinstance(node, ast.AnnAssign):
            outside.append(_span(node.annotation))
        elif isinstance(node, (ast.Raise, ast.JoinedStr)):
            outside.append(_span(node))
    return inside, outside


def _valid(code: str | None) -> bool:
    """Whether a mutant is a program at all: the tool takes the stars of {**state} for a power."""
    try:
        return code is not None and bool(ast.parse(code))
    except SyntaxError:
        return False


def of_the_tool(count: int, seed: int) -> list[Mutant]:
    """A seeded sample of what the tool's operators can do to the methods and to the attention."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    # Two need arguments; decorators, exceptions, bits and identity of strings say nothing about mathematics.
    left_out = ("Variable", "Decorator", "Exception", "Shift", "Bit", "_Is", "Is_", "IsNot_")
    operators = [get_operator(name)() for name in operator_names() if not any(word in name for word in left_out)]
    files = [f"methods/{file.name}" for file in sorted((SOURCE / "methods").glob("*.py"))]
    found: list[tuple[str, int, int, int]] = []
    codes: dict[str, str] = {}
    for file in files:
        if file in ("methods/__init__.py", "methods/table.py", "methods/entry.py"):
            continue
        code = codes[file] = (SOURCE / file).read_text(encoding="utf-8")
        inside, outside = counting(code)
        tree = get_ast(code)
        for index, operator in enumerate(operators):
            places = (place for node in ast_nodes(tree) for place in operator.mutation_positions(node))
            for occurrence, (start, end) in enumerate(places):
                here = [any(low <= start and end <= high for low, high in spans) for spans in (inside, outside)]
                if here == [True, False]:
                    found.append((file, index, occurrence, start[0]))
    random.Random(seed).shuffle(found)
    mutants: list[Mutant] = []
    for file, index, occurrence, line in found:
        if len(mutants) == count:
            break
        code = mutate_code(codes[file], operators[index], occurrence)
        if code is None or code == codes[file] or not _valid(code):
            continue
        changed = next(
            (new for old, new in zip(codes[file].splitlines(), code.splitlines(), strict=False) if old != new), ""
        )
        if re.search(r'[<>]=? ["\']', changed):
            continue  # the order of words: options are compared for equality only
        what = f"{type(operators[index]).__name__}, line {line}: {changed.strip()}"
        mutants.append(Mutant(file, what, code, "tool"))
    return mutants


def tests_for(file: str) -> list[list[str]]:
    """pytest arguments, the quickest first: the file's own tests, then the laws for its method."""
    stem = Path(file).stem.lstrip("_")
    own = [str(path) for path in sorted((ROOT / "tests").rglob(f"test_{stem}.py"))]
    if stem == "wrappers":
        return [["tests/methods/test_finetuned.py"], ["tests/methods/test_laws.py", "-k", "fedavg"]]
    if stem == "attention":
        methods = ("fedamp", "heurfedamp", "pfedatt", "fedacs", "twin")
        return [own, [f"tests/methods/test_{name}.py" for name in methods]]
    if stem == "layers":
        return [[f"tests/methods/test_{name}.py" for name in ("fedbn", "fedrep", "fedbabu", "fedala", "psgd")]]
    if stem == "mr_mtl":
        return [own, ["tests/methods/test_laws.py", "-k", "mr-mtl"]]
    if stem.startswith("psgd"):
        return [["tests/methods/test_psgd.py"], ["tests/methods/test_laws.py", "-k", "psgd"]]
    return [*([own] if own else []), ["tests/methods/test_laws.py", "-k", stem]]


def killed_by(mutant: Mutant, copy: Path) -> str | None:
    """Which tests notice the mutant; the copy of the package is whole again afterwards."""
    target = copy / "amity" / mutant.file
    original = target.read_text(encoding="utf-8")
    target.write_text(mutant.code, encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        for arguments in tests_for(mutant.file):
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:xdist",
                *arguments,
            ]
            try:
                done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                return "no end"
            if done.returncode not in (0, 5):  # 5: no test was selected
                return arguments[0]
        return None
    finally:
        target.write_text(original, encoding="utf-8")


def copies(count: int, folder: Path) -> Iterator[Path]:
    for number in range(count):
        shutil.copytree(SOURCE, folder / str(number) / "amity", ignore=shutil.ignore_patterns("__pycache__"))
        yield folder / str(number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=int, default=60, help="how many mutants of the tool's [60]")
    parser.add_argument("--seed", type=int, default=0, help="of the sample [0]")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="mutants whose file or description contains this")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    everything = [*ours(), *of_the_tool(arguments.tool, arguments.seed)]
    mutants = [m for m in everything if arguments.only in f"{m.file} {m.what}"]
    results: list[tuple[Mutant, str | None]] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="amity-mutants-") as folder:
        free: Queue[Path] = Queue()
        for copy in copies(arguments.workers, Path(folder)):
            free.put(copy)

        def judge(mutant: Mutant) -> tuple[Mutant, str | None]:
            copy = free.get()
            try:
                return mutant, killed_by(mutant, copy)
            finally:
                free.put(copy)

        with ThreadPoolExecutor(arguments.workers) as pool:
            for number, (mutant, by) in enumerate(pool.map(judge, mutants), 1):
                results.append((mutant, by))
                fate = f"killed by {Path(by).name}" if by else "SURVIVED"
                print(f"{number:3}/{len(mutants)} {mutant.kind:4} {fate:34} {mutant.file}: {mutant.what}", flush=True)
    report(results, time.monotonic() - began, arguments.json)


def excuse(mutant: Mutant) -> str | None:
    return next((why for pattern, why in EQUIVALENT.items() if re.search(pattern, mutant.what)), None)


def report(results: list[tuple[Mutant, str | None]], seconds: float, path: str | None) -> None:
    counted = [(mutant, by) for mutant, by in results if by or not excuse(mutant)]
    for mutant, by in results:
        if not by and excuse(mutant):
            print(f"equivalent: {mutant.file}: {mutant.what}: {excuse(mutant)}")
    survivors = [mutant for mutant, by in counted if not by]
    for mutant in survivors:
        print(f"survived: {mutant.file}: {mutant.what}")
    killed = len(counted) - len(survivors)
    tool = sum(mutant.kind == "tool" for mutant, _ in counted)
    score = killed / len(counted) if counted else 1.0
    print(f"{killed} of {len(counted)} mutants killed ({score:.1%}), {tool} of them the tool's, in {seconds:.0f} s")
    if path:
        rows = [{"file": m.file, "what": m.what, "kind": m.kind, "killed_by": by} for m, by in results]
        Path(path).write_text(json.dumps({"score": score, "mutants": rows}, indent=1), encoding="utf-8")
    sys.exit(0 if score >= 0.95 else 1)


if __name__ == "__main__":
    main()
