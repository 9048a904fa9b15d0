"""The seal on a run's results: they count when all of them are written, and their checksums last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from amity.record.checksums import SUMS, Check, Sums, config_sum, sum_of, sums_of, sums_text
from amity.record.contents import Config
from amity.record.directory import FACTS, MANIFEST
from amity.record.files import replace


class Seal:
    """The `checksums.json` of a run that is being written."""

    def __init__(self, path: Path, fixed: Mapping[str, str], configs: Iterable[str]) -> None:
        self._sums = Sums(path, fixed, tuple(dict.fromkeys(configs)))

    @classmethod
    def begin(cls, path: Path, fixed: Mapping[str, bytes], config: Config) -> Seal:
        """Return the seal of a new run. `fixed`: the contents of files that stay as they are."""
        return cls(path, {name: sum_of(content) for name, content in fixed.items()}, [config_sum(config)])

    @classmethod
    def again(cls, sums: Sums, config: Config) -> Seal:
        """Return the seal of a run that goes on, perhaps under a configuration that asks for more rounds.

        Both configurations count, for the file is replaced after this one.
        """
        fixed = {name: known for name, known in sums.files.items() if name in (FACTS, MANIFEST)}
        return cls(sums.folder, fixed, [config_sum(config), *sums.configs[:1]])

    @property
    def text(self) -> bytes:
        """The file's content while no result counts."""
        return sums_text(self._sums)

    def open(self) -> None:
        """Let no result count from now on."""
        replace(self._sums.folder / SUMS, self.text)

    def close(self, names: Iterable[str], rounds: int, check: Check) -> None:
        """Make these files, as far as they exist, the results of so many rounds."""
        folder = self._sums.folder
        files = sums_of(folder, (name for name in names if (folder / name).exists()))
        sealed = self._sums._replace(files={**self._sums.files, **files}, rounds=rounds, check=check.lines)
        replace(folder / SUMS, sums_text(sealed))
