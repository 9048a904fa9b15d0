"""A method is added by one file and one row of the table: the laws then take it as it is."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amity.testing import check_method

METHOD = '''
"""Each client starts halfway between its own model and everybody's mean."""

from dataclasses import dataclass

import torch

from amity.contract import Download, Solver, kinds_like, model_of
from amity.config.options import check, option
from amity.learn.train import train
from amity.learn.vectors import weighted_mean


@dataclass(frozen=True)
class Halfway:
    share: float = option(0.5, "of the mean in a client's start", at_least=0, at_most=1)

    paired = ()
    evaluates = "held"
    solver = Solver("adam", 1e-3)
    optimizers = ("adam", "sgd")

    def __post_init__(self):
        check(self)

    def init_server(self, task, fed):
        return {**task.initial(fed), "sizes": fed.sizes}

    def init_client(self, task, fed, client):
        return task.initial(fed)

    def download(self, server, who, round, rng):
        return Download(model_of(server), {})

    def local(self, task, client, down, turn):
        model = train(task, {**down, "params": torch.lerp(client["params"], down["params"], self.share)}, turn)
        return model, model

    def upload_kinds(self, task, fed, down):
        return kinds_like(task.initial(fed))

    def aggregate(self, server, who, uploads, round):
        return {**server, **weighted_mean(uploads, server["sizes"][who])}

    def personal(self, task, client, down, turn):
        return model_of(client)
'''

ROW = """
from amity.methods import METHODS, Entry
from halfway import Halfway

METHODS.built_in["halfway"] = Entry("halfway between own and mean", "-", Halfway)
"""


def laws(folder: Path, method: str) -> subprocess.CompletedProcess[str]:
    """The laws for one more method, in a process of their own."""
    (folder / "halfway.py").write_text(method)
    (folder / "row.py").write_text(ROW)
    here = Path(__file__).parent
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "row", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return subprocess.run(
        [*command, str(here / "test_laws.py"), "-k", "halfway"],
        cwd=here.parents[1],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
    )


def test_one_file_and_one_row(tmp_path: Path) -> None:
    done = laws(tmp_path, METHOD)
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= 20


def built(folder: Path, method: str) -> Any:
    """The method of this file, in this process: the same laws by themselves, without collecting all tests for them."""
    file = folder / "halfway.py"
    file.write_text(method)
    spec = importlib.util.spec_from_file_location("halfway", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Halfway()


@pytest.mark.parametrize("what", ["nothing", "something else"])
def test_the_laws_want_uploads_declared(what: str, tmp_path: Path) -> None:
    said = "    def upload_kinds(self, task, fed, down):\n        return kinds_like(task.initial(fed))\n"
    assert said in METHOD
    method = METHOD.replace(said, "" if what == "nothing" else said.replace("task.initial(fed)", "{}"))
    assert check_method(built(tmp_path, METHOD), laws=["declared_uploads"]).passed == ("declared_uploads",)
    with pytest.raises(AssertionError, match="breaks the law 'declared_uploads'"):
        check_method(built(tmp_path, method), laws=["declared_uploads"])


def test_the_laws_catch_a_wrong_one(tmp_path: Path) -> None:
    """A method that changes what it was given, as in-place programs do."""
    wrong = METHOD.replace('{**down, "params": torch.lerp(', '{**down, "params": client["params"].lerp_(').replace(
        'lerp_(client["params"], down', "lerp_(down"
    )
    assert wrong != METHOD
    with pytest.raises(AssertionError, match="breaks the law 'pure'"):
        check_method(built(tmp_path, wrong))
