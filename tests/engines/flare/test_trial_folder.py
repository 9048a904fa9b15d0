"""The folder of a trial: all of it, or nothing."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from amity.config.run import Run
from amity.data import Silos
from amity.engines.flare import trial
from amity.errors import InputError
from amity.prepare import silos_of


@pytest.fixture(scope="module")
def silos() -> Silos:
    return trial.renamed(silos_of(Run("fedavg", data="digits", clients=2, per_silo=10)), trial.names_of(2))


@pytest.mark.parametrize("error", [InputError("no"), OSError(errno.ENOSPC, "no room"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("step", ["make_hub", "complete", "np.savez"])
def test_a_trial_that_cannot_be_made_leaves_nothing(
    error: BaseException, step: str, silos: Silos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*words: object, **how: object) -> None:
        raise error

    (tmp_path / "other").mkdir()
    monkeypatch.setattr(f"amity.engines.flare.trial.{step}", fails)
    with pytest.raises(type(error)):
        trial.Trial(tmp_path / "a" / "b" / "new", silos)
    assert [item.name for item in tmp_path.iterdir()] == ["other"]


def test_a_folder_that_was_there_stays(silos: Silos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").write_text("mine")
    monkeypatch.setattr("amity.engines.flare.trial.make_hub", lambda *words: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trial.Trial(tmp_path, silos)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_folder_below_a_file_leaves_no_folder(silos: Silos, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        trial.Trial(tmp_path / "file" / "below", silos)
    with pytest.raises(InputError, match="cannot be made"):
        trial.Trial(Path("/proc/self/nonesuch/a"), silos)
    assert [item.name for item in tmp_path.iterdir()] == ["file"]
