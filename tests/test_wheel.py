"""The wheel: all that Amity needs is in it and nothing else; installed elsewhere, every command works."""

from __future__ import annotations

import json
import os
import re
import site
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

from amity.cli import app as cli

wheel_builder = pytest.importorskip("hatchling.builders.wheel")

ROOT = Path(__file__).parents[1]
PAPERS = ("apple", "fedacs", "fedamp", "own", "pfedatt")
SMALL = 2_000_000  # bytes
LARGEST = 400_000  # bytes of one file in it

Amity = Callable[..., str]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built by the backend that pip would use."""
    (built,) = wheel_builder.WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"]
    )
    return Path(built)


@pytest.fixture(scope="module")
def inside(wheel: Path) -> dict[str, int]:
    """The files in the wheel, and their sizes."""
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return {info.filename: info.file_size for info in archive.infolist()}


def test_every_file_of_the_package_is_in_it(inside: dict[str, int]) -> None:
    """Templates, styles and scripts too, and the mark that types can be relied on."""
    source = ROOT / "src" / "amity"
    files = [file for file in source.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    expected = {f"amity/{file.relative_to(source).as_posix()}" for file in files}
    assert {"amity/py.typed", "amity/cli/app.py"} <= expected
    assert expected - set(inside) == set()


def test_the_descriptions_of_all_experiments_are_in_it_and_no_results(inside: dict[str, int]) -> None:
    described = {
        f"amity/papers/files/{paper}/{file.name}"
        for paper in PAPERS
        for file in (ROOT / "experiments" / paper).glob("*.toml")
    }
    assert len(described) > 10 and described - set(inside) == set()
    folders = {path.name for path in (ROOT / "experiments").iterdir() if path.is_dir()}
    assert folders == {*PAPERS, "results"}, "a new folder of experiments has to be named in pyproject.toml"
    packed = {name for name in inside if name.startswith("amity/papers/files/")}
    assert all(name.endswith(".toml") for name in packed)


def test_nothing_else_is_in_it_and_nothing_large(wheel: Path, inside: dict[str, int]) -> None:
    tops = {name.partition("/")[0] for name in inside}
    assert all(top == "amity" or re.fullmatch(r"amity-[\d.]+\.dist-info", top) for top in tops), tops
    strange = re.compile(r"__pycache__|\.pyc$|(^|/)tests?/|under-way|\.safetensors$|\.npz$")
    assert [name for name in inside if strange.search(name)] == []
    assert {name: size for name, size in inside.items() if size > LARGEST} == {}
    assert wheel.stat().st_size < SMALL


def test_it_says_what_it_is_and_what_its_extras_are(wheel: Path, inside: dict[str, int]) -> None:
    def text(ending: str) -> str:
        (name,) = (name for name in inside if name.endswith(ending))
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(name).decode()

    assert "amity = amity.cli.app:main" in text("entry_points.txt")
    told = text("METADATA")
    extras = set(re.findall(r"^Provides-Extra: (\S+)$", told, re.MULTILINE))
    assert {"federation", "figures", "images", "onnx", "parquet", "ray", "track", "tune"} <= extras
    needed = re.findall(r"^Requires-Dist: (\S+)", told, re.MULTILINE)
    assert any(name.startswith("torch") for name in needed)


# From here on: installed into an environment of its own, outside the checkout.


@pytest.fixture(scope="module")
def amity(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Amity:
    """The command `amity` of a fresh environment with the wheel in it, and the other packages of this one.

    A .pth file lends it these packages; such a file's folders are not searched for further ones, so that the checkout
    that is installed here does not come along.
    """
    home = tmp_path_factory.mktemp("elsewhere")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / "venv")], check=True)
    python = home / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "-q"]
    subprocess.run([*install, str(wheel)], check=True)
    (packages,) = (home / "venv" / "lib").glob("python*/site-packages")
    (packages / "lent.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    (home / "work").mkdir()
    lent = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "AMITY_DATA")}
    lent |= {"OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(home / "cache"), "AMITY_OFFLINE": "1"}

    def call(*words: str, **more: str) -> str:
        done = subprocess.run(
            [str(home / "venv" / "bin" / "amity"), *words],
            cwd=home / "work",
            env={**lent, **more},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"amity {' '.join(words)}: {done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    call.home = home  # type: ignore[attr-defined]
    return call


def home_of(amity: Amity) -> Path:
    home: Path = amity.home  # type: ignore[attr-defined]
    return home


COMMANDS = {str(command.name) for command in cli.app.registered_commands}
COMMANDS |= {str(group.name) for group in cli.app.registered_groups}

TINY = "--data digits --clients 4 --model mlr --rounds 2 --epochs 1".split()


@pytest.mark.slow
def test_it_runs_compares_reports_and_tunes(amity: Amity) -> None:
    work = home_of(amity) / "work"
    program = "import amity; print(amity.__file__)"
    python = str(home_of(amity) / "venv" / "bin" / "python")
    lent = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    where = subprocess.run([python, "-c", program], capture_output=True, text=True, cwd=work, env=lent).stdout
    assert str(home_of(amity)) in where and str(ROOT) not in where
    amity("run", "heurfedamp", *TINY, "--log", "tensorboard", "--out", "one")
    amity("compare", "separate", "fedavg", *TINY, "--out", "both")
    amity("report", "one", "both/fedavg", "--out", "page.html")
    for page in ("one/report.html", "both/report.html", "page.html"):
        assert "</html>" in (work / page).read_text(encoding="utf-8")
    assert list((work / "one" / "tensorboard").iterdir())
    assert "amity run fedavg" in amity("tune", "fedavg", *TINY, "--search", "lr=0.01,0.001", "--out", "tuned")


@pytest.mark.slow
def test_it_lists_and_helps(amity: Amity) -> None:
    for name in sorted(COMMANDS):
        assert "Usage: amity" in amity(name, "--help")
    for words in (["methods", "--json"], ["data", "list"], ["settings", "practical", "--data", "digits"]):
        assert amity(*words)
    assert "fedamp/table3" in amity("reproduce")


@pytest.mark.slow
def test_it_reproduces(amity: Amity) -> None:
    data = os.environ.get("AMITY_DATA")
    if data is None:
        pytest.skip("AMITY_DATA does not say where data sets are")
    words = "reproduce own/heart --size quick --rows separate,fedavg --out reproduced".split()
    said = amity(*words, AMITY_DATA=data)
    assert "separate" in said and "fedavg" in said


@pytest.mark.slow
@pytest.mark.skipif("predict" not in COMMANDS, reason="there is no amity predict")
def test_it_predicts_for_new_rows_and_exports(amity: Amity) -> None:
    work = home_of(amity) / "work"
    silos = work / "clinics"
    silos.mkdir()
    for place, name in enumerate(("north", "south", "east")):
        rows = "".join(f"{(i * 7 + place) % 11},{i % 5},{'ill' if i % 3 else 'well'}\n" for i in range(60))
        (silos / f"{name}.csv").write_text(f"pressure,sugar,label\n{rows}")
    (work / "new.csv").write_text("sugar,pressure\n3,7\n1,2\n")
    amity("run", "fedavg-ft", "--data", "folder:clinics", "--rounds", "2", "--out", "own")
    found = json.loads(amity("predict", "own", "--silo", "north", "--data", "new.csv", "--json"))
    assert str(found).count("ill") + str(found).count("well") >= 2
    amity("export", "own", "--silo", "north", "--to", "safetensors", "--out", "north.safetensors")
    assert (work / "north.safetensors").stat().st_size


@pytest.mark.slow
@pytest.mark.skipif("watch" not in COMMANDS, reason="there is no amity watch")
def test_it_serves_the_live_page(amity: Amity) -> None:
    home = home_of(amity)
    amity("run", "separate", *TINY, "--out", "watched")
    command = [str(home / "venv" / "bin" / "amity"), "watch", "watched"]
    lent = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with subprocess.Popen(command, cwd=home / "work", stdout=subprocess.PIPE, text=True, env=lent) as page:
        try:
            assert page.stdout is not None
            address = re.search(r"http://\S+", page.stdout.readline())
            assert address is not None
            with urlopen(address[0], timeout=30) as answer:
                assert answer.status == 200 and b"</html>" in answer.read()
        finally:
            page.terminate()  # SIGINT is ignored by what a shell has put into the background
            page.wait(30)
