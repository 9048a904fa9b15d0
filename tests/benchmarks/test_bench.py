"""Benchmarks: how they are measured and shown, and that every one of them runs."""

from __future__ import annotations

import json
import math
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from amity.cli import app as cli
from amity.errors import InputError
from benchmarks import BENCHMARKS, local
from benchmarks.child import numbers
from benchmarks.growth import exponent, points
from benchmarks.measure import Benchmark, Goal, Missing, Sample, cases_of, load, measure, module_of, ratios, speed
from benchmarks.show import as_data, case_rows, goal_rows, verdict

ROOT = Path(__file__).parents[2]

# Each case writes who it is, and in which process, into a log beside it.
TINY = '''
"""A tiny benchmark."""
import os, time
from pathlib import Path
from benchmarks.measure import Goal, speed

LOG = Path(__file__).with_suffix(".log")

def case(name, seconds):
    def work():
        with LOG.open("a") as file:
            print(name, os.getpid(), os.environ.get("OMP_NUM_THREADS", "-"), file=file)
        print("noise on stdout")
        return {"seconds": seconds, "twice": 2 * seconds, "note": "no number"}
    return work

def cases(quick=False):
    """Slow against
    fast."""
    return {"slow": case("slow", 0.4 if quick else 4.0), "fast": case("fast", 0.1 if quick else 1.0)}

GOALS = [speed("slow", "fast", at_least=3), Goal("twice", lambda r: r["fast"].figures["twice"], at_most=1.0)]
'''


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.py"
    path.write_text(TINY, encoding="utf-8")
    return path


def amity(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["amity", "bench", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def alone(*words: str, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """`amity bench` in a process of its own, called from somewhere."""
    program = f"import sys; sys.argv = {['amity', 'bench', *words]}; from amity.cli.app import main; main()"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=cwd, env={**os.environ, **changes}, capture_output=True, text=True)


def test_the_checkout_is_found_from_anywhere(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("raise SystemExit('the wrong benchmarks')")
    done = alone(str(tiny), "--quick", "--repeats", "1", cwd=tmp_path)
    assert done.returncode == 0 and "4.00x" in done.stdout, done.stderr


def test_without_the_source_one_line_says_where_benchmarks_are(tmp_path: Path) -> None:
    """As from a wheel: the package without what stands beside it in a checkout."""
    shutil.copytree(ROOT / "src" / "amity", tmp_path / "amity", ignore=shutil.ignore_patterns("__pycache__"))
    done = alone("local", "--quick", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 2 and "benchmarks come with Amity's source" in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""
    helped = alone("--help", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert helped.returncode == 0 and "come with Amity's source" in " ".join(helped.stdout.split())


def test_help_names_every_benchmark() -> None:
    said = " ".join(alone("--help", cwd=ROOT).stdout.split())
    assert ", ".join(BENCHMARKS) in said


def test_no_wheel_holds_benchmarks() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = config["tool"]["hatch"]["build"]["targets"]["wheel"]
    packed = [*wheel["packages"], *wheel["force-include"]]
    folder = ROOT / "benchmarks"
    assert not any(folder.is_relative_to(ROOT / path) or (ROOT / path).is_relative_to(folder) for path in packed)


@pytest.mark.parametrize(("module", "page"), [("pfllib", "performance"), ("pfllib_alone", "errata")])
def test_pfllib_is_called_as_the_page_says(module: str, page: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.{module}", "--help"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0
    assert f"python -m benchmarks.{module} " in (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


def test_memory_is_measured_in_a_fresh_process() -> None:
    memory = module_of(str(ROOT / "benchmarks" / "memory.py"))
    case = "1000 silos, McMahan CNN"
    figures = numbers(cases_of(memory, quick=True)[case]())
    assert figures["peak_gib"] > figures["matrix_gib"] > 0


@pytest.fixture
def usual_threads() -> Iterator[None]:
    """Put back the number of threads: a benchmark of the server takes them all, as it may in a process of its own."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.ray] if name == "cluster" else []) for name in BENCHMARKS]
)
def test_every_case_runs_in_quick_mode(name: str, usual_threads: None) -> None:
    try:
        benchmark = load(name, quick=True)
    except Missing as missing:
        pytest.skip(str(missing))
    assert len(benchmark.cases) > 1 and benchmark.title.endswith(".")
    repeat = {}
    for case, work in cases_of(module_of(benchmark.source), quick=True).items():
        figures = numbers(work())
        repeat[case] = Sample(figures.pop("seconds", 1.0), figures)
        assert repeat[case].seconds > 0
    for goal in benchmark.goals:
        assert math.isfinite(goal.value(repeat)), goal.what


@pytest.mark.ray
def test_the_workers_of_a_cluster_end_with_its_case() -> None:
    ray = pytest.importorskip("ray")
    cluster = module_of(BENCHMARKS["cluster"])
    work = cases_of(cluster, quick=True)[cluster.ACTORS]
    work()
    assert ray.is_initialized()
    del work
    assert not ray.is_initialized()


def test_cases_are_timed_in_turn_each_in_its_own_process(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    repeats = measure(load(str(tiny), quick=False), repeats=2, quick=False)
    log = [line.split() for line in tiny.with_suffix(".log").read_text().splitlines()]
    assert [name for name, _, _ in log] == ["slow", "fast"] * 3  # one pass is not measured
    processes = {name: {process for n, process, _ in log if n == name} for name in ("slow", "fast")}
    assert all(len(found) == 1 for found in processes.values())
    assert len(set.union(*processes.values(), {str(os.getpid())})) == 3
    assert {threads for _, _, threads in log} == {"-"}  # torch's own choice
    assert repeats == [{"slow": Sample(4.0, {"twice": 8.0}), "fast": Sample(1.0, {"twice": 2.0})}] * 2


def test_the_clock_runs_where_work_tells_no_time(tmp_path: Path) -> None:
    path = tmp_path / "clock.py"
    path.write_text("import time\ndef cases(): return {'a': lambda: time.sleep(0.05), 'b': lambda: None}\n")
    (repeat,) = measure(load(str(path), quick=True), repeats=1, quick=True)
    assert repeat["a"].seconds >= 0.05 > repeat["b"].seconds


def test_baselines_of_local_training_hold_no_code_of_the_engine() -> None:
    program = (
        "import sys; from benchmarks import local\n"
        "for case, work in local.cases(quick=True).items():\n"
        "    if case != local.AMITY: work()\n"
        "print(*(name for name in sys.modules if name.startswith('amity.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # What reads names, knows which numbers can be read, and complains.
    assert set(done.stdout.split()) == {"amity.config", "amity.config.options", "amity.errors", "amity.finite"}


def test_useful_operations_are_those_of_the_layers() -> None:
    """McMahan CNN, 28x28: two per weight and place forward, as many for each of the two gradients, but none of the
    images' own."""
    first, second, dense = 28 * 28 * 25 * 32, 14 * 14 * 25 * 32 * 64, 3136 * 512 + 512 * 10
    assert local.useful_flops(local.Size(3, 40, 5, 1)) == 120 * 2 * (2 * first + 3 * (second + dense))


def test_ratios_are_of_the_same_repeat() -> None:
    repeats = [
        {"a": Sample(2.0, {}), "b": Sample(1.0, {})},
        {"a": Sample(9.0, {}), "b": Sample(3.0, {})},  # the machine was busy: both took longer
        {"a": Sample(4.0, {}), "b": Sample(1.0, {})},
    ]
    assert ratios(repeats, "b", "a") == [2.0, 3.0, 4.0]
    data = as_data(
        Benchmark("n", "s", "t", ["a", "b"], [speed("a", "b", 3.5)], [], {"a": None, "b": "a"}), repeats, quick=False
    )
    assert data["cases"]["b"]["speed"] == 3.0 and data["cases"]["b"]["median"] == 1.0
    assert data["goals"][0]["values"] == [2.0, 3.0, 4.0] and data["goals"][0]["met"] is False
    assert case_rows(data)[0] == ("a", "4.000", "2.000 to 9.000", "")
    assert case_rows(data)[1] == ("b", "1.000", "1.000 to 3.000", "3.00x")
    assert goal_rows(data)[0][1:] == ("3.00", "2.00 to 4.00", "at least 3.5", "not met")
    assert goal_rows({**data, "quick": True})[0][-1] == "too small to tell"


def test_goals_have_two_ends() -> None:
    def goal(**range: float) -> dict[str, Any]:
        found = as_data(
            Benchmark("n", "s", "t", ["a"], [Goal("w", lambda r: r["a"].seconds, **range)], [], {"a": "a"}), done, False
        )
        return dict(found["goals"][0])

    done = [{"a": Sample(1.0, {})}]
    assert verdict(goal(at_least=0.9, at_most=1.1), False) == "met"
    assert verdict(goal(at_most=0.9), False) == "not met"
    assert verdict(goal(at_least=1.1), False) == "not met"
    assert verdict(goal(), False) == ""


def test_the_command_prints_tables_and_writes_json(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.json"
    assert amity(monkeypatch, str(tiny), "--quick", "--repeats", "3", "--json", str(file)) == 0
    said = capsys.readouterr().out
    assert "Slow against fast." in said and "4.00x" in said and "torch" in said
    result = json.loads(file.read_text(encoding="utf-8"))["tiny"]
    assert result["cases"]["fast"]["seconds"] == [0.1] * 3 and result["cases"]["fast"]["figures"] == {
        "twice": [0.2] * 3
    }
    assert [goal["met"] for goal in result["goals"]] == [True, True]
    assert result["machine"]["cores"] == os.cpu_count()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lokal",), "unknown benchmark 'lokal': did you mean local"),
        (("local", "--repeats", "0"), "at least 1 repeat, got 0"),
        (("local", "--json", "no/such/place.json"), "directory that exists, got no/such/place.json"),
        (("missing.py",), "unknown benchmark 'missing.py'"),
    ],
)
def test_mistakes_are_one_line(
    words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert amity(monkeypatch, *words) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_what_is_not_installed_is_skipped(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.write_text(TINY + 'NEEDS = ("no_such_package",)\n', encoding="utf-8")
    assert amity(monkeypatch, str(tiny)) == 0
    assert "skipped: needs no_such_package" in capsys.readouterr().err


def test_bad_input_inside_a_case_is_told(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(
        "from amity.errors import InputError\n"
        "def fail(): raise InputError('needs data, got none: fetch some')\n"
        "def cases(): return {'a': fail, 'b': fail}\n"
    )
    with pytest.raises(InputError, match="a: needs data, got none"):
        measure(load(str(path), quick=True), repeats=1, quick=True)


def test_a_power_law_is_found() -> None:
    assert exponent({x: 3.0 * x**1.5 for x in (10, 30, 100)}) == pytest.approx(1.5)
    repeat = {"10 silos": Sample(1.0, {"train": 1.0}), "1,000 silos": Sample(1.0, {"train": 2.0})}
    repeat["7 samples"] = Sample(1.0, {"train": 5.0})
    assert points(repeat, "silos", ["train"]) == {10: 1.0, 1000: 2.0}


# A program that reads what PFLlib's documentation says it reads, and prints its rounds as PFLlib does.
PROGRAM = """
import sys, numpy, torchvision, calmsize, h5py, matplotlib.pyplot
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert words["--algorithm"] == "FedAMP" and words["--device"] == "cpu" and words["--batch_size"] == "100"
for part, count in (("train", 300), ("test", 75)):
    for silo in range(int(words["--num_clients"])):
        held = numpy.load(f"../dataset/{words['--dataset']}/{part}/{silo}.npz", allow_pickle=True)["data"].tolist()
        assert held["x"].shape == (count, 1, 28, 28) and held["y"].shape == (count,)
for seconds in (7.5, 2.5, 4.0):
    print("-" * 25, "time cost", "-" * 25, seconds)
"""


def test_pfllib_is_run_as_a_program_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from amity.contract import Split
    from amity.data.source import Source

    file = str(ROOT / "benchmarks" / "pfllib.py")
    monkeypatch.delenv("AMITY_PFLLIB", raising=False)
    with pytest.raises(InputError, match="--pfllib PATH"):
        load(file, quick=True)
    monkeypatch.setenv("AMITY_PFLLIB", str(tmp_path))
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "main.py").write_text(PROGRAM, encoding="utf-8")
    module = module_of(file)

    from benchmarks.rounds import examples

    def images(name: str) -> Source:
        return Source(name, Split(*examples(900, (1, 28, 28), 0)), Split(*examples(225, (1, 28, 28), 1)), 10)

    monkeypatch.setattr(module, "load", images)
    theirs, ours, *_ = cases_of(module, quick=True).values()
    assert theirs() == {"seconds": 4.0, "without evaluation": 2.5}
    figures = numbers(ours())
    assert 0 < figures["without evaluation"] < figures["seconds"]
    pair = {"PFLlib": Sample(4.0, {"without evaluation": 3.0}), "Amity": Sample(2.0, {"without evaluation": 1.0})}
    assert [goal.value(pair) for goal in module.GOALS[:2]] == [2.0, 3.0]
    assert [path.name for path in tmp_path.iterdir()] == ["system"]  # nothing was written into the checkout


def test_the_page_is_what_was_measured() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "performance.py"))
    results = script["read"]([script["DATA"]])
    assert script["PAGE"].read_text(encoding="utf-8") == script["page"](results), "run python docs/performance.py"
    assert script["PLOT"].read_text(encoding="utf-8") == script["plot"](results["growth"])
    for result in results.values():
        for row in result["cases"].values():
            assert f"{row['median']:.3f}" in script["page"](results)


def test_the_plot_has_every_point() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "performance.py"))
    figures = {phase: [0.1, 0.2] for phase in ("train", "download", "aggregate", "evaluate")}
    names = [f"{x:,} {axis}" for axis in ("silos", "parameters", "samples") for x in (10, 1000)]
    drawn = script["plot"]({"cases": {name: {"figures": figures} for name in names}})
    legend = 3
    assert len(re.findall("<circle", drawn)) == 3 * len(names) + legend
    assert drawn.count("1,000") == 3
