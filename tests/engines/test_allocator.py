"""Freed memory stays with the process: large blocks come back without new pages, unless the environment says else."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, torch
from amity.engines.local.allocator import keep_freed_memory
print(keep_freed_memory())
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def step(): return [torch.ones(2_000_000) for _ in range(3)]  # 24 MB, freed when the caller drops it
for _ in range(5): step()
before = faults()
for _ in range(10): step()
print(faults() - before)
"""


def output(program: str, **environment: str) -> list[str]:
    """The words that a program prints in a process of its own."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
    out = subprocess.run(
        [sys.executable, "-c", program], env={**clean, **environment}, capture_output=True, text=True, check=True
    )
    return out.stdout.split()


def child(**environment: str) -> tuple[bool, int]:
    was_set, faults = output(PROGRAM, **environment)
    return was_set == "True", int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only GNU's C library has these settings")
def test_freed_blocks_are_used_again() -> None:
    was_set, faults = child()
    asis, faults_asis = child(MALLOC_MMAP_THRESHOLD_="131072")  # every large block from the system, as in the beginning
    assert was_set and not asis
    assert faults_asis > 10 * 3 * 1000  # 10 steps of 3 blocks of about 2000 pages
    assert faults < faults_asis / 4


CRUMBS = """
import torch
from amity.engines.local.allocator import Crumbs
crumbs = Crumbs()

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20

held = [torch.ones(1 << 18) for _ in range(400)]  # a MiB each
held = held[::8]  # what is left keeps the others' memory from going back by itself
before = resident()
crumbs.taken(1 << 29)
between = resident()
crumbs.taken(1 << 29)
print(before - between, before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only GNU's C library has this")
def test_freed_memory_goes_back_after_many_uploads() -> None:
    kept, given_back = map(int, output(CRUMBS))
    assert abs(kept) < 50 and given_back > 300  # MiB
