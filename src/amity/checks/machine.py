"""What this machine has: versions of what is installed, room on disk, memory."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from amity.checks.findings import Account
from amity.federation.contract_words import size
from amity.free_memory import available

FLARE = (2, 9)  # the version that kits are written for
INSTALL = "pip install 'amity[federation]'"

FEW_TASKS, FEW_FILES = 2048, 1024  # a run has some 400 threads at a silo, and a file or two for each

LOGS = 10**8
"""Bytes that every run is reckoned to take for logs, audit and record, whatever its model: with less, none is begun."""

LITTLE_DISK = 10**9
LITTLE_MEMORY = 15 * 10**8  # bytes; a silo's processes take about 1 GB with a small model


def check_versions(account: Account) -> None:
    """Note what is installed here."""
    with account.about("versions"):
        packages = ("amity", "torch", "nvflare", "cryptography")
        found = {name: installed(name) for name in packages}
        words = ", ".join([f"Python {platform.python_version()}", *(f"{name} {said}" for name, said in found.items())])
        missing = [name for name, said in found.items() if said == "missing"]
        if missing:
            account.failed("versions", words, INSTALL)
        elif minor(found["nvflare"]) != FLARE:
            wanted = ".".join(map(str, FLARE))
            account.failed("versions", f"{words}; kits are for nvflare {wanted}", INSTALL)
        else:
            account.passed("versions", words)


def check_threads(account: Account, threads: int) -> None:
    """Note what more than one thread at a silo means: sums are then taken in another order."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads > cores:
        found = f"silo.toml asks for {threads} threads, and this machine has {cores} cores for them"
        account.warned("threads", found, f"set threads = {cores} or fewer: more are slower")
    elif threads > 1:
        found = f"{threads} threads: models may differ in their last bits from those of a simulation"
        account.warned(
            "threads", found, "nothing is wrong by that; set threads = 1 where runs are to be compared exactly"
        )


def installed(package: str) -> str:
    """Return the version of a package that is installed here."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def minor(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; fewer where there are none."""
    numbers = []
    for part in text.split(".")[:2]:
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def check_writable(account: Account, check: str, folder: Path) -> None:
    """Note whether a folder can be written to, or made where it does not exist yet. Nothing is left there."""
    with account.about(check):
        place = existing(folder)
        if not place.is_dir():
            account.failed(check, f"{place} is not a folder", "move it away, or name another state folder in silo.toml")
            return
        try:
            with tempfile.TemporaryFile(dir=place) as trial:
                trial.write(b"x")
                trial.flush()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            remedy = "make room there" if full else "let this account write there, or name another folder"
            account.failed(check, f"{folder} cannot be written to ({reason})", remedy)
            return
        account.passed(check, f"{folder} can be {'written to' if place == folder else 'made'}")


def existing(folder: Path) -> Path:
    """Return a folder, or the nearest above it that exists."""
    return next(place for place in (folder, *folder.parents) if place.exists() or place == Path(place.anchor))


def check_disk(account: Account, folder: Path, needed: int | None = None, what: str = "the run") -> None:
    """Note the room on disk, against what is needed: by the run where that is known, else by any run at all.

    Too little for that fails. Little more, less than twice as much or than a GB, is a warning: records grow.
    """
    with account.about("disk"):
        free = shutil.disk_usage(existing(folder)).free
        least = LOGS if needed is None else needed
        words = f"{size(free)} free at {folder}"
        if needed is not None or free < least:
            words += f", {what if needed is not None else 'any run'} needs about {size(least)}"
        if free < least:
            account.failed("disk", words, f"make room for {size(least - free)} there, or move it to a larger disk")
        elif free < max(LITTLE_DISK, 2 * least):
            account.warned("disk", words, "make room there: logs and records grow")
        else:
            account.passed("disk", words)


def check_memory(account: Account) -> None:
    """Note the memory that may still be taken, also by the limits of a container."""
    with account.about("memory"):
        free = available()
        if free is None:
            account.warned("memory", "not known on this system", f"see that {size(LITTLE_MEMORY)} are free")
        elif free < LITTLE_MEMORY:
            remedy = f"end other programs or raise the container's limit: {size(LITTLE_MEMORY)} are usual"
            account.warned("memory", f"{size(free)} available", remedy)
        else:
            account.passed("memory", f"{size(free)} available, {os.cpu_count()} cores")


def check_limits(account: Account, root: Path = Path("/")) -> None:
    """Note limits on threads and open files, which containers and service managers set low."""
    with account.about("limits"):
        tasks, files = most_tasks(root), _soft_limit("RLIMIT_NOFILE")
        words = f"{_number(tasks)} threads and {_number(files)} open files at most"
        if (tasks is not None and tasks < FEW_TASKS) or (files is not None and files < FEW_FILES):
            remedy = f"raise TasksMax or the container's pids limit to {FEW_TASKS}, LimitNOFILE to {FEW_FILES}"
            account.warned("limits", words, remedy)
        else:
            account.passed("limits", words)


def most_tasks(root: Path) -> int | None:
    """Return how many threads this account, or the control groups of this process, may have; None: any number."""
    found = [_soft_limit("RLIMIT_NPROC")]
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controllers in ("", "pids"):
            top, inner = root / "sys/fs/cgroup" / controllers, Path(path.strip("/"))
            texts = [_text(top / place / "pids.max").strip() for place in (inner, *inner.parents)]
            found += [int(text) for text in texts if text.isdigit()]
    return min((limit for limit in found if limit is not None), default=None)


def _soft_limit(name: str) -> int | None:
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    limit = resource.getrlimit(getattr(resource, name))[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _number(limit: int | None) -> str:
    return "any number of" if limit is None else f"{limit:,}"
