"""From flags, config files and what a directory holds to the runs that a command asks for."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from amity.config.file import read_config
from amity.config.options import fields_of, names_of, parse, unknown
from amity.config.references import ALONE
from amity.config.run import Run
from amity.config.seeds import checked_seeds, seeds_of
from amity.errors import InputError

LONG = 200  # bytes of a directory's name; most file systems allow 255
PER_METHOD = names_of(Run, lambda role: role.per_method)
"""Options of a run that `--set METHOD.key=value` may give one method of a comparison for itself."""

FlagsOfEachSeed = list[tuple[int | None, dict[str, str]]]
"""Seeds, and the flags of the run of each; None for the run's own seed."""

_log = logging.getLogger("amity.cli")


def flags_of_each_seed(seeds: str | None, given: Mapping[str, str], file: Mapping[str, Any]) -> FlagsOfEachSeed:
    """Return every seed with the flags of its run; a single None where the run's own seed is meant."""
    text = file.get("seeds") if seeds is None and "seed" not in given else seeds
    if text is None:
        return [(None, dict(given))]
    if "seed" in given:
        raise InputError("--seed is for one run, --seeds for several: give one of them")
    found = checked_seeds(text) if isinstance(text, list) else seeds_of(str(text))
    return [(seed, {**given, "seed": str(seed)}) for seed in found]


def check_seeds(place: Path, each: FlagsOfEachSeed, *, resume: bool) -> None:
    """Refuse to resume one run where there are several seeds, which would begin another beside them."""
    there = sorted(path.name for path in place.glob("seed-*") if path.is_dir()) if resume else []
    if there and each[0][0] is None:
        raise InputError(f"{place} holds runs of several seeds ({', '.join(there[:3])}, ...): resume with --seeds too")


def target_of(directory: str | None, first: Callable[[], Run], what: str, each: FlagsOfEachSeed) -> Path:
    """Return --out, or a directory that is named after what is run."""
    if directory is not None:
        if not directory.strip():
            raise InputError("--out needs a directory, got an empty name: leave it out, or give one such as runs/first")
        return Path(directory)
    name = f"{what}-{_federation(first(), [seed for seed, _ in each if seed is not None])}"
    if len(name.encode()) > LONG:
        name = f"{name.encode()[:150].decode(errors='ignore')}~{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return Path("runs") / name


def _federation(run: Run, seeds: Sequence[int]) -> str:
    """Return the run's data, setting and seed, or these seeds, as part of a file name."""
    from amity.data.settings.registry import resolve

    _, folder, path = run.data.partition(":")
    data = Path(path).resolve().name if folder else run.data
    words = (data, resolve(run.setting, run.data), f"seeds-{seeds[0]}-{seeds[-1]}" if seeds else str(run.seed))
    return "-".join(re.sub(r"[^\w.-]+", "-", word) for word in words)


def config_of(path: str | None, resumed: Path | None = None) -> dict[str, Any]:
    """Read the config file, or else that of the run in a directory, with which it goes on; empty without either."""
    if path is None and resumed is not None:
        from amity.record import own_config

        own_config(resumed)  # refuses one that is not as the run wrote it
        path = str(resumed / "config.toml") if (resumed / "config.toml").is_file() else None
    if path is None:
        return {}
    _log.info("reading %s", path)
    return read_config(path)


def agreed(own: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what each run of a resumed comparison goes on with: its method's own protocol, and what all share.

    That holds for those too that had not begun. Where runs differ in anything else they are of different comparisons.
    """
    begun = [config for config in own.values() if config]
    private = {"method", "set", *names_of(Run, lambda role: role.follows_method)}
    if any(config.get("method") == "pooled" for config in begun):
        private.add("participation")
    first = begun[0] if begun else {}
    shared = {key: value for key, value in first.items() if all(config.get(key) == value for config in begun)}
    common = {key: value for key, value in shared.items() if key not in private}
    private |= set(PER_METHOD)
    return {name: {**common, **{k: v for k, v in config.items() if k in private}} for name, config in own.items()}


def alone_run(
    beside: Run, flags: Mapping[str, str], file: Mapping[str, Any], begun: Mapping[str, Mapping[str, Any]]
) -> Run:
    """Return the run in which every silo trains alone, beside that of a method, with what all methods are given.

    `begun`: the configurations of the runs that are resumed, of this one and of those beside it. It goes on for as many
    rounds as they do.
    """
    from amity.resolve import alone_of

    shared = {key: value for key, value in file.items() if key != "set"}
    own = begun.get(ALONE) or agreed(begun).get(ALONE, {})
    (run,) = runs_of([ALONE], flags, shared, [], {ALONE: own})
    rounds = max(run.rounds, beside.rounds)
    return alone_of(replace(run, method=beside.method, settings=beside.settings, rounds=rounds))


def runs_of(
    names: Sequence[str],
    given: Mapping[str, str],
    file: Mapping[str, Any],
    texts: Sequence[str],
    resumed: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Run]:
    """Return one run per method, from what a resumed run began with, the config file, the flags and --set.

    Each of these wins over those named before it.
    """
    from amity.methods import entry_of, known_options

    for name in names:
        entry_of(name)
    base = {key: value for key, value in file.items() if key in fields_of(Run)}
    base |= {key: parse(Run, key, text) for key, text in given.items()}
    shared, single = _settings(names, texts)
    shared = {**file.get("set", {}), **shared}
    for key in shared:
        if not any(key in known_options(name) for name in names):
            raise unknown(f"option of {', '.join(names)}", key, {k for name in names for k in known_options(name)})
    return [_run(name, (resumed or {}).get(name, {}), base, shared, single[name]) for name in names]


def _settings(names: Sequence[str], texts: Sequence[str]) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Return the values that --set gives to all methods, and those that it gives to one, by its name."""
    shared: dict[str, Any] = {}
    single: dict[str, dict[str, str]] = {name: {} for name in names}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        owner, dot, rest = key.partition(".")
        if not equals or not key:
            raise InputError(f"--set needs key=value, got {text!r}: for example --set sigma=10")
        if not dot:
            shared[key] = value
        elif owner in single:
            single[owner][rest] = value
        else:
            raise unknown("method in --set", owner, single)
    return shared, single


def _run(
    name: str,
    before: Mapping[str, Any],
    base: Mapping[str, Any],
    shared: Mapping[str, Any],
    single: Mapping[str, str],
) -> Run:
    """Return the run of one method: what it began with, then what all are given, then what it alone is given."""
    from amity.methods import known_options, parse_option

    begun = {key: value for key, value in before.items() if key in fields_of(Run)}
    own = {key: parse(Run, key, text) for key, text in single.items() if key in PER_METHOD}
    wanted = {key: value for key, value in before.get("set", {}).items() if key in known_options(name)}
    wanted |= {key: value for key, value in shared.items() if key in known_options(name)}
    wanted |= {key: value for key, value in single.items() if key not in PER_METHOD}
    read = {key: parse_option(name, key, v) if isinstance(v, str) else v for key, v in wanted.items()}
    return Run(**{**begun, **base, **own, "method": name, "settings": read})
