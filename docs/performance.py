"""Write docs/performance.md and docs/growth.svg from what `amity bench --json` has written: no number is typed by hand.

python docs/performance.py FILE...   take these results into docs/performance.json, then rewrite the page
python docs/performance.py           rewrite the page from docs/performance.json
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))  # the benchmarks stand beside the docs and are not installed

from benchmarks.growth import AXES, PHASES  # noqa: E402
from benchmarks.show import case_rows, describe, goal_rows  # noqa: E402

DATA, PAGE, PLOT = DOCS / "performance.json", DOCS / "performance.md", DOCS / "growth.svg"

Results = dict[str, dict[str, Any]]

HEAD = """# Performance

Made by `docs/performance.py` from what `amity bench --json` has measured; a test fails when it is not up to date.

    amity bench                                     # all of these, in some minutes
    amity bench local growth --repeats 9 --json results.json
    amity bench --quick                             # only see that they run
    amity bench benchmarks/layers.py                # a training step layer by layer
    amity bench benchmarks/memory.py --repeats 1    # needs 16 GiB of free memory

and, with your own checkout of PFLlib, which runs as a separate program:

    python -m benchmarks.pfllib --pfllib PATH --json pfllib.json
    python docs/performance.py results.json pfllib.json

Every case has a process of its own, which lives through all repeats: threads, memory settings and imports of one cannot
help or harm another. Every repeat times all cases in turn, after one pass that does not count. *Speed* is the median
over repeats of the baseline's time over the case's time in the same repeat (above 1: faster); the baseline has 1.00x. A
target is met when the median over repeats is in its range.
"""

RAY = """
```bash
pip install 'amity[ray]'
amity run fedamp --data fmnist --clients 100 --engine ray                                    # a cluster on this machine
amity run fedamp --data fmnist --clients 100 --engine ray --ray-address auto --workers 32    # a running one
```

A simulation's local training is spread over the workers of a Ray cluster: one that is started for the run (the
default, `--ray-address local`, on loopback only), or one that is running already (`auto`, or its address; Amity
must be installed on its machines, in the same version). The results are those of one process, to the last bit on
machines of the same kind.

**When.** When one machine is too slow or too small: training dominates, and there are more cores elsewhere. On one
machine the default engine is as fast and starts at once. It is a simulation still: the process that starts it reads
all data and hands them out. Real silos, whose data must not move, use NVIDIA FLARE, not this. It computes on cpu.

**What moves.** A worker gets its silos' data and the plan once; silos stay with their worker, balanced by their
training examples. In a round it is sent what its silos download (one copy per machine of what they share or what is
forwarded to several: for APPLE the m cores instead of m^2) and answers with uploads, scores and a few facts. Client
states stay. They are fetched for checkpoints, which `--checkpoint-every auto` therefore writes every two minutes at
most, and at the end.

**What is lost with a worker.** All silos and the server go back to the last checkpoint, or to the beginning where there
is none yet, and the rounds since then come again with the same random streams: the same results, bit for bit, and an
event that says so. It costs no bytes and no memory in advance, only time. When it has happened more than five times
between two new rounds, the run ends; `--resume` continues it, with any engine.

**When the cluster itself breaks down.** Without its head, its raylet or one of the raylet's agents a cluster of one
machine is lost, and Ray ends the processes that use it. Amity looks at them and leaves first, with a line that says
which process has died, exit code 2, and `--resume` to continue from the last checkpoint. Where Ray is faster (an agent
that dies takes the raylet along within a second), or the run itself is killed, a small process that outlives it says
so, ends what is left of the cluster and removes its folder; nobody but you can enter that folder while it is there.

The start of a cluster, once per run, is that of Ray and of one Python with torch per worker: it is not in the
table.
"""

SECTIONS = {
    "local": (
        "Local training",
        "The *library-style loop* is written as libraries write it: clients one after the other, a DataLoader, "
        "default memory order, torch's default Adam, the penalty in the loss, ReLU before the pool, all cores inside "
        "every operation. The *bare loop* has Amity's tricks and none of its code: flat vectors, channels-last, the "
        "second convolution by spectra, fused Adam, a thread per core. Useful FLOP/s count the multiplications and "
        "additions of the layers as they are defined, forward and backward; *matrix products* are those of 1024x1024 "
        "float32 matrices on the same threads. *A step of nothing but matrix products* does the layers' arithmetic at "
        "that rate and nothing else. Amity is faster than that because spectra need a fifth of the multiplications of "
        "a 5x5 convolution (`models/fourier.py`; the same function, with smaller rounding errors).",
    ),
    "layers": (
        "Local training, layer by layer",
        "As the layers are defined, four fifths of a step are the second convolution and the dense layers. *Blocks* "
        "are oneDNN's own memory order, the fastest direct kernel; *spectra* multiply transforms of pictures and "
        "kernels instead, and are what Amity does. What has been tried and brought nothing: the first convolution as a "
        "matrix product of columns, parts of a batch that stay in the cache, a pool and ReLU in one function.",
    ),
    "round": (
        "A whole round",
        "A round is attention over all models, local training, and evaluation of every silo's model. Without "
        "collaboration (`separate`) there is no attention.",
    ),
    "server": ("The server's step", ""),
    "apple": (
        "APPLE's step",
        "Each step reads all cores twice: for the gradient of the relationship vector, and for the new personal model.",
    ),
    "workers": ("Workers", ""),
    "stacked": (
        "Stacked clients",
        "A step of a small model costs less than the calls that make it: `--engine stacked`, the choice of `auto` for "
        "small dense models, lets clients advance together as rows of one matrix.",
    ),
    "cluster": ("Beyond one machine: `--engine ray`", RAY.strip()),
    "growth": (
        "How cost grows",
        "A power law, time = a x^b, is fitted to the points of every repeat by least squares of the logarithms; the "
        "table shows the median of b and its spread over repeats.",
    ),
    "memory": (
        "Memory",
        "At most two matrices of all models are alive in a round: the server's, and one that begins as the downloads "
        "and ends as the server's new one. What a silo holds is a row of it. With `--matrix-dir` both lie in "
        "memory-mapped files; the results are the same.\n\n"
        "Before a run begins, its memory is estimated from the shapes of the method's states and messages "
        "(`engines/local/footprint.py`) and compared with what the machine, its control groups and the limit on the "
        "address space leave. What does not fit is refused in one line that says which part is largest; from 80 % on "
        "it is a note. For eight methods with 12 to 40 silos of a million parameters the estimate was 0.8 to 1.4 times "
        "what the process then took (`tests/engines/peak_memory.py`); with Ray it is rougher. APPLE keeps every silo's "
        "core at every silo, before and after a round: 2 m² d numbers, 9 GiB for 50 silos with `cnn-apple`. Memory "
        "that runs out all the same ends the run in one line, and `--resume` continues it.",
    ),
    "pfllib": ("Against PFLlib", ""),
}


def page(results: Results) -> str:
    known = [name for name in SECTIONS if name in results]
    others = [name for name in results if name not in SECTIONS]
    return "\n\n".join([HEAD.rstrip(), *(section(name, results[name]) for name in [*known, *others])]) + "\n"


def section(name: str, result: dict[str, Any]) -> str:
    title, text = SECTIONS.get(name, (name, ""))
    repeats = len(next(iter(result["cases"].values()))["seconds"])
    parts = [f"## {title}", result["title"], text, f"{describe(result['machine'])}; {repeats} repeats."]
    if result["quick"]:
        parts.append("**Measured with --quick: these sizes are too small to tell anything.**")
    parts.append(table(("", "median s", "least to most", "speed"), case_rows(result)))
    if result["goals"]:
        parts.append(table(("", "median", "least to most", "target", ""), goal_rows(result)))
    if name == "growth":
        parts.append(f"![time against silos, parameters and samples]({PLOT.name})")
    return "\n\n".join(part for part in [*parts, *result["notes"]] if part)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * 3, *["---"] * (len(head) - 4)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


Points = list[tuple[float, float, float, float]]  # x, then median, least and most seconds
WIDTH, HEIGHT, LEFT, TOP = 300, 260, 64, 30
COLOURS = {"training": "#1f77b4", "the server's step": "#d62728", "evaluation": "#2ca02c"}


def measured(growth: dict[str, Any], axis: str, part: str) -> Points:
    found: Points = []
    for case, row in growth["cases"].items():
        number, _, unit = case.partition(" ")
        if unit == axis:
            sums = [sum(values) for values in zip(*(row["figures"][phase] for phase in PHASES[part]), strict=True)]
            found.append((float(number.replace(",", "")), statistics.median(sums), min(sums), max(sums)))
    return found


def plot(growth: dict[str, Any]) -> str:
    """Three pictures side by side, both axes logarithmic: points are medians, bars go from the least to the most."""
    everything = [p for axis in AXES for part in PHASES for p in measured(growth, axis, part)]
    low, high = min(p[2] for p in everything), max(p[3] for p in everything)
    width, height = len(AXES) * (WIDTH + LEFT) + 20, TOP + HEIGHT + 70
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for place, axis in enumerate(AXES):
        drawn += picture(growth, axis, LEFT + place * (WIDTH + LEFT), (low, high))
    for place, (part, colour) in enumerate(COLOURS.items()):
        x = LEFT + 150 * place
        drawn.append(f'<circle cx="{x}" cy="{height - 14}" r="4" fill="{colour}"/>')
        drawn.append(f'<text x="{x + 10}" y="{height - 10}">{part}</text>')
    return "\n".join([*drawn, "</svg>"]) + "\n"


def picture(growth: dict[str, Any], axis: str, left: int, seconds: tuple[float, float]) -> Iterator[str]:
    lines = {part: measured(growth, axis, part) for part in PHASES}
    ends = [p[0] for p in next(iter(lines.values()))]

    def across(x: float) -> float:
        return left + 12 + (WIDTH - 24) * _place(x, min(ends), max(ends))

    def up(y: float) -> float:
        return TOP + HEIGHT - 8 - (HEIGHT - 16) * _place(y, *seconds)

    yield f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888"/>'
    yield f'<text x="{left}" y="{TOP - 10}">seconds against {axis}</text>'
    for x in ends:
        yield f'<text x="{across(x):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{x:,.0f}</text>'
    for power in range(math.ceil(math.log10(seconds[0])), math.floor(math.log10(seconds[1])) + 1):
        y = up(10.0**power)
        yield f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
    for part, points in lines.items():
        colour = COLOURS[part]
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y, _, _ in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}"/>'
        for x, y, least, most in points:
            at = f"{across(x):.1f}"
            yield f'<line x1="{at}" x2="{at}" y1="{up(least):.1f}" y2="{up(most):.1f}" stroke="{colour}"/>'
            yield f'<circle cx="{at}" cy="{up(y):.1f}" r="3.5" fill="{colour}"/>'


def _place(value: float, low: float, high: float) -> float:
    """Where a value lies between two others on a logarithmic axis, from 0 to 1."""
    return (math.log(value) - math.log(low)) / ((math.log(high) - math.log(low)) or 1.0)


def read(files: Sequence[Path]) -> Results:
    """The results of these files, later ones in place of earlier ones."""
    found: Results = {}
    for file in files:
        found |= json.loads(file.read_text(encoding="utf-8"))
    return found


def main() -> None:
    given = [Path(name) for name in sys.argv[1:]]
    results = read([*([DATA] if DATA.exists() else []), *given])
    DATA.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(results), encoding="utf-8")
    if "growth" in results:
        PLOT.write_text(plot(results["growth"]), encoding="utf-8")


if __name__ == "__main__":
    main()
