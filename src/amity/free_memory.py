"""Main memory that this process may still take, and what to say when it is not enough.

Linux tells it in files: what the machine has available, and what the control groups of the process (a container, a
batch job) allow. A limit on the address space counts too. Where nothing is told, nothing is known.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from amity.errors import OutOfMemory

_MMAP_THRESHOLD = -3  # malloc.h
_ROOT = Path("/")
_UNLIMITED = 1 << 60  # version 1 writes a number that no machine has
_WORDS = ("not enough memory", "can't allocate memory", "cannot allocate memory", "out of memory")  # torch's


def available(root: Path = _ROOT) -> int | None:
    """Bytes that can be taken without swapping or being stopped; None where nobody says."""
    found = [_machine(root), *_groups(root), _address_space(root)]
    known = [number for number in found if number is not None]
    return max(0, min(known)) if known else None


@contextmanager
def in_one_line() -> Iterator[None]:
    """Memory that ran out is one line, whoever asked for it."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
        where = "; ".join(getattr(error, "__notes__", []))
        raise OutOfMemory(
            f"out of memory{f' at {where}' if where else ''}: free some, or take fewer silos, a smaller model or fewer "
            "--workers; --resume continues from the last checkpoint"
        ) from error


def ran_out(error: BaseException) -> bool:
    """Whether this is what Python or torch say when they are given no more memory."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(words in text for words in _WORDS)


def _machine(root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable" and rest.split()[1:] == ["kB"] and rest.split()[0].isdigit():
            return int(rest.split()[0]) * 1024
    try:  # elsewhere: what is free now, without what could be given back
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if root == _ROOT else None
    except (ValueError, OSError, AttributeError):
        return None


def _groups(root: Path) -> Iterator[int]:
    """What each control group of this process still allows, from its own up to the outermost."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controllers == "":
            top, limit, used, cache = root / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top, cache = root / "sys/fs/cgroup/memory", "total_inactive_file"
            limit, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        inner = Path(path.strip("/"))
        for folder in (top / inner, *(top / parent for parent in inner.parents)):
            most, taken = _number(folder / limit), _number(folder / used)
            if most is not None and taken is not None and most < _UNLIMITED:
                yield most - taken + _reclaimable(folder / "memory.stat", cache)


def _reclaimable(path: Path, name: str) -> int:
    """Bytes of files in memory that the system takes back first."""
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdigit():
            return int(value)
    return 0


def _address_space(root: Path) -> int | None:
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    pages = _text(root / "proc/self/statm").split()[:1]
    if limit == resource.RLIM_INFINITY or not pages or not pages[0].isdigit():
        return None
    return limit - int(pages[0]) * resource.getpagesize()


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def give_large_blocks_back() -> bool:
    """Let freed blocks of a MiB and more go back to the system at once, for this whole process; tell whether it does.

    A server has many threads and holds each model for a moment: what the C library keeps of them for later use comes to
    several times what is needed at any time. Only GNU's C library has this setting.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 20) == 1)
    except (OSError, AttributeError, TypeError):
        return False
