"""Interrupted and resumed: a run stays readable and comes to the same end."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from cli.commands import TINY, Amity, lines, models, refused, summary, tree, with_tiny, without_alone, worked

from amity import Run, record
from amity.cli import running
from amity.federation.events import Event, Listener, What


@pytest.mark.parametrize("what", ["seed", "rounds", "lr", "set"])
def test_a_run_is_not_resumed_with_another_value(amity: Amity, what: str, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "held")
    before = tree(tmp_path)
    changes = {"seed": "--seed 5", "rounds": "--rounds 1", "lr": "--lr 0.5", "set": "--set sigma=3"}
    named = {"set": "sigma"}.get(what, what)
    refused(amity("run", "pfedatt", "--out", "held", "--resume", *changes[what].split()), named)
    assert tree(tmp_path) == before


def test_a_run_is_not_resumed_as_another_method(amity: Amity, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "held")
    before = tree(tmp_path)
    refused(amity("run", "separate", *TINY, "--out", "held", "--resume"), "held", "method", "'pfedatt'")
    assert tree(tmp_path) == before


def interrupting(hook: What, last: int) -> Callable[[Run], AbstractContextManager[Listener]]:
    """A stand-in for the progress display: Ctrl-C after a round is recorded, or within the next."""

    @contextmanager
    def shown(run: Run) -> Iterator[Listener]:
        def listen(event: Event) -> None:
            if event.what == hook and event.round == (last if hook == "recorded" else last + 1):
                raise KeyboardInterrupt

        yield listen

    return shown


@pytest.mark.parametrize(
    ("method", "hook", "every"),
    [
        ("pfedatt", "recorded", "auto"),
        ("pfedatt", "trained", "0"),
        ("apple", "measured", "3"),
        ("apple", "recorded", "2"),
        ("fedavg-ft", "trained", "auto"),
    ],
)
def test_an_interrupted_run_is_readable_and_resumes_to_the_same_end(
    amity: Amity, monkeypatch: pytest.MonkeyPatch, method: str, hook: What, every: str, tmp_path: Path
) -> None:
    words = with_tiny(f"run {method} --rounds 5 --participation 0.7 --checkpoint-every {every}")
    with monkeypatch.context() as patch:
        patch.setattr(running, "shown", interrupting(hook, 2))
        said = amity(*words, "--out", "a")
    assert said.code == 130
    assert "Traceback" not in said.err and "--resume" in said.err
    half = record.read(tmp_path / "a")
    assert len(half.lines) == 2 and half.results["rounds"] == 2
    assert list(half.weights) == ([] if method == "fedavg-ft" else [1, 2])
    assert len(half.predictions) == 3
    worked(amity("report", "a", "--out", "half.html"))

    worked(amity("run", "--out", "a", "--resume"))
    worked(amity(*words, "--out", "b"))
    assert summary(tmp_path / "a") == summary(tmp_path / "b")
    assert models(tmp_path / "a") == models(tmp_path / "b")
    assert tree(tmp_path / "a").keys() == tree(tmp_path / "b").keys()
    plain = [[{**line, "seconds": None, "check": None} for line in lines(tmp_path / name)] for name in ("a", "b")]
    assert plain[0] == plain[1]


def test_interrupted_in_round_1_a_run_is_readable_and_resumes(
    amity: Amity, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(running, "shown", interrupting("trained", 0))
        assert amity("run", "fedavg", *TINY, "--out", "a").code == 130
    assert record.read(tmp_path / "a").lines == []
    worked(amity("report", "a", "--out", "none.html"))
    worked(amity("run", "fedavg", "--out", "a", "--resume"))
    worked(amity("run", "fedavg", *TINY, "--out", "b"))
    assert summary(tmp_path / "a") == summary(tmp_path / "b")


def test_an_interrupted_comparison_resumes(amity: Amity, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = ["compare", "separate", "fedavg", *TINY]
    with monkeypatch.context() as patch:
        patch.setattr(running, "shown", interrupting("recorded", 1))
        assert amity(*words, "--out", "a").code == 130
    assert not (tmp_path / "a" / "fedavg").exists()
    worked(amity(*words, "--out", "a", "--resume"))
    worked(amity(*words, "--out", "b"))
    for name in ("separate", "fedavg"):
        assert summary(tmp_path / "a" / name) == summary(tmp_path / "b" / name)


@pytest.mark.parametrize("given", ["run separate", "compare separate fedavg"])
def test_what_is_said_after_ctrl_c_continues_the_run(
    amity: Amity, monkeypatch: pytest.MonkeyPatch, given: str, tmp_path: Path
) -> None:
    """Where --out was left to us too; and with --resume alone the run goes on as it was begun."""
    words = with_tiny(f"{given} --no-alone --batch 7 --lr 0.02")
    with monkeypatch.context() as patch:
        patch.setattr(running, "shown", interrupting("recorded", 1))
        said = amity(*words)
    assert said.code == 130
    command = said.err.split("this continues it: ")[1].splitlines()[0]
    first, *again = shlex.split(command)
    assert first == "amity" and again == [*words, "--resume"]
    (target,) = (tmp_path / "runs").iterdir()
    shutil.copytree(target, tmp_path / "copy")
    worked(amity(*again))
    worked(amity(*given.split(), "--resume", "--out", "copy"))
    worked(amity(*words, "--out", "whole"))
    places = [Path()] if given.startswith("run") else [Path("separate"), Path("fedavg")]
    for place in places:
        assert summary(target / place) == summary(tmp_path / "whole" / place)
    assert summary(tmp_path / "copy" / places[0]) == summary(tmp_path / "whole" / places[0])
    # One that had not begun is given what others were, but not their rates.
    configs = [record.read(tmp_path / name / places[-1]).config for name in ("copy", "whole")]
    assert [(config["rounds"], config["clients"]) for config in configs] == [(2, 3)] * 2


def test_a_resumed_run_names_the_value_that_was_given(amity: Amity, tmp_path: Path, finished: Path) -> None:
    """Not one that follows from it, as the batch size does from the silos."""
    shutil.copytree(finished, tmp_path / "held")
    (tmp_path / "other.toml").write_text('method = "pfedatt"\nclients = 9\nbatch = 3\n')
    refused(amity("run", "--config", "other.toml", "--out", "held", "--resume"), "clients = ", "got 9")
    worked(amity("run", "--out", "held", "--resume", "--checkpoint-every", "0"))


def test_resume_continues_a_finished_run_for_more_rounds(amity: Amity, tmp_path: Path) -> None:
    worked(amity("run", "separate", *TINY, "--out", "a"))
    first = lines(tmp_path / "a")
    worked(amity("run", "separate", "--out", "a", "--resume", "--rounds", "4"))
    worked(amity(*with_tiny("run separate --rounds 4"), "--out", "b"))
    assert lines(tmp_path / "a")[:2] == first
    assert summary(tmp_path / "a") == summary(tmp_path / "b")
    assert models(tmp_path / "a") == models(tmp_path / "b")


def test_resuming_a_finished_run_changes_nothing(amity: Amity, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "a")
    worked(amity("run", "--out", "a", "--resume"))
    assert tree(tmp_path / "a", but="report.html") == tree(finished)


def test_ctrl_c_ends_a_real_process_cleanly(amity: Amity, tmp_path: Path) -> None:
    words = with_tiny("run heurfedamp --clients 4 --rounds 40 --epochs 4")
    # Installed anew: a shell may have started us with SIGINT ignored, which children inherit.
    program = "import signal as s; s.signal(s.SIGINT, s.default_int_handler); import amity.__main__ as a; a.main()"
    command = [sys.executable, "-c", program, *without_alone(words), "--out", "a"]
    written = tmp_path / "a" / "rounds.jsonl"
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            for _ in range(6000):
                if process.poll() is not None or (written.exists() and written.read_bytes().count(b"\n") >= 2):
                    break
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 130, err
    assert "Traceback" not in err and "--resume" in err
    half = record.read(tmp_path / "a")
    assert 2 <= len(half.lines) < 40
    assert half.results["rounds"] == len(half.lines)

    worked(amity("run", "--out", "a", "--resume"))
    worked(amity(*words, "--out", "b"))
    assert summary(tmp_path / "a") == summary(tmp_path / "b")
    assert models(tmp_path / "a") == models(tmp_path / "b")
