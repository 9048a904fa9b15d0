"""A folder with one of everything that commands ask for: silos' tables, a finished run, a hub, a site, their files."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from benchmarks.soak.command import Said, call

TINY = "--model mlr --rounds 2 --epochs 1 --workers 1"
SILOS = ("east", "north", "south")


class World:
    """The folder, and a copy of it from which it is put right again."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "some" / "where" / "world"  # so that ../.. is ours too
        self._whole = place / "whole"
        self.folder.mkdir(parents=True)
        _make(self.folder)
        shutil.copytree(self.folder, self._whole)
        self._stamp = self._look()

    def changed(self) -> list[str]:
        """Return what is there that was not, or is not as it was; and put it right."""
        now = self._look()
        if now == self._stamp:
            return []
        found = sorted(name for name in now.keys() | self._stamp.keys() if now.get(name) != self._stamp.get(name))
        shutil.rmtree(self.folder.parents[1])
        shutil.copytree(self._whole, self.folder)
        self._stamp = self._look()
        return found

    def _look(self) -> dict[str, tuple[int, int]]:
        root = self.folder.parents[1]
        found = {item: item.lstat() for item in root.rglob("*") if item.is_file() or item.is_symlink()}
        return {str(item.relative_to(root)): (stat.st_size, stat.st_mtime_ns) for item, stat in found.items()}


def _make(folder: Path) -> None:
    clinics(folder / "clinics")
    (folder / "new.csv").write_text("pressure,sugar,ward\n1,0.5,a\n0.5,2,b\n")
    (folder / "options.toml").write_text("rounds = 2\n")
    (folder / "consortium.toml").write_text('name = "trial"\norganisation = "Trial"\nhost = "localhost"\nport = 8002\n')
    _worked(folder, "run", "fedamp", "--data", "folder:clinics", *TINY.split(), "--out", "run")
    _worked(folder, "federation", "init", "consortium.toml", "--hub", "hub")
    _worked(folder, "federation", "join", "north", "--site", "site")
    (request,) = [file for file in (*folder.glob("*.request"), *folder.glob("site/*.request"))]
    shutil.copy(request, folder / "north.request")
    _worked(folder, "federation", "add", "north.request", "--hub", "hub")
    _worked(folder, "federation", "join", "north", "--site", "site", "--admission", "north.admission")
    silo = 'name = "north"\nstate = "../state"\ndata = "../clinics/north.csv"\n[policy]\napprove = "standing"\n'
    (folder / "site" / "silo.toml").write_text(silo)
    run = 'name = "first"\n[data]\nshape = [3]\nclasses = 2\n[run]\nmethod = "fedavg"\nrounds = 2\nmodel = "mlr"\n'
    (folder / "RUN.toml").write_text(run)


def clinics(folder: Path) -> None:
    """Write the tables of three silos."""
    draw = random.Random(0)
    folder.mkdir(parents=True)
    for name in SILOS:
        rows = [(round(draw.gauss(0, 1), 3), round(draw.gauss(1, 2), 3), draw.choice("abc")) for _ in range(24)]
        text = "".join(f"{a},{b},{c},{'ill' if a + b > 1 else 'well'}\n" for a, b, c in rows)
        (folder / f"{name}.csv").write_text("pressure,sugar,ward,label\n" + text)


def _worked(folder: Path, *words: str) -> Said:
    said = call(folder, *words)
    if said.code != 0:
        raise RuntimeError(f"amity {' '.join(words)} does not work: {said.err}")
    return said
