"""Creating a run directory: its first files, or nothing at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from amity.errors import InputError
from amity.record.checksums import SUMS
from amity.record.configuration import as_written, config_text
from amity.record.contents import Config, Facts
from amity.record.directory import CONFIG, FACTS, LINES, MANIFEST, PART, check_free, holds_run, remove_run
from amity.record.files import not_written, plain, replace, to_json
from amity.record.lock import Lock
from amity.record.seal import Seal
from amity.record.sharing import make_folder
from amity.record.summary import SUMMARY_FACTS


class Created(NamedTuple):
    """A directory in which no round is recorded yet."""

    config: Config  # as it is written
    facts: Facts
    lock: Lock
    seal: Seal


def create_directory(
    path: Path,
    config: Mapping[str, Any],
    silos: Sequence[str],
    facts: Mapping[str, Any],
    manifest: Mapping[str, Any] | None,
    *,
    force: bool,
) -> Created:
    """Write the first files of a run; with `force`, in place of the run that is there."""
    if missing := [key for key in SUMMARY_FACTS if key not in facts]:
        raise ValueError(f"a run's facts need {', '.join(SUMMARY_FACTS)}: {', '.join(missing)} not given")
    if twice := sorted({silo for silo in silos if list(silos).count(silo) > 1}):
        raise InputError(f"silos need different names, got {twice[0]!r} more than once: rename one")
    written = as_written(config)
    known = cast(Facts, plain({key: value for key, value in facts.items() if key != "silos"}))
    fixed = {FACTS: to_json({"silos": list(silos), **known}, indent=1)}
    if manifest is not None:
        fixed = {MANIFEST: _manifest_text(manifest), **fixed}
    seal = Seal.begin(path, fixed, written)
    content = {**fixed, LINES: b"", PART: b"", SUMS: seal.text, CONFIG: config_text(written)}
    return Created(written, known, _write(path, content, force=force), seal)


def _write(path: Path, content: Mapping[str, bytes], *, force: bool) -> Lock:
    """Write files into a directory that is made and locked, or leave everything as it was."""
    made: list[Path] = []
    check_free(path, force=force)
    try:
        made += [folder for folder in (path, *path.parents) if not folder.exists()]
        make_folder(path)
        lock = Lock(path)
        check_free(path, force=force)  # somebody may have been faster
        if holds_run(path):
            remove_run(path)
        for name, text in content.items():
            made.insert(0, path / name)
            replace(path / name, text)
    except OSError as error:
        _undo(made)
        reason = error.strerror or error
        raise not_written(error, f"cannot write a run to {path} ({reason}): give another --out") from error
    return lock


def _undo(made: Iterable[Path]) -> None:
    """Remove what a refused directory has got already, as far as that is possible."""
    for path in made:
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)


def _manifest_text(manifest: Mapping[str, Any]) -> bytes:
    """Return a manifest as JSON with a line for each silo: hundreds of silos with a hundred classes stay readable."""
    content = plain(manifest)
    lines = ",\n".join("  " + json.dumps(silo) for silo in content["silos"])
    others = json.dumps({key: value for key, value in content.items() if key != "silos"}, indent=1)
    return f'{others[:-2]},\n "silos": [\n{lines}\n ]\n}}\n'.encode()
