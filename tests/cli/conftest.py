"""The command line, called in process for loading torch takes seconds, and a small finished run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli import commands
from cli.commands import Amity, Said

from amity import Run, run
from amity.cli import app as cli


@pytest.fixture
def amity(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Amity:
    """Call the command line in a directory of its own, where no data set is to be found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AMITY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(*words: str | Path) -> Said:
        monkeypatch.setattr(sys, "argv", ["amity", *commands.without_alone([str(word) for word in words])])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Said(ended.value.code, said.out, said.err)

    return call


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small finished run, to be copied."""
    path = tmp_path_factory.mktemp("finished") / "run"
    run(Run("pfedatt", data="synthetic", setting="iid", clients=3, model="mlr", rounds=2, epochs=1), out=path)
    return path
