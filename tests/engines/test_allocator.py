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


def child(**environment: str) -> tuple[bool, int]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
    out = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**clean, **environment}, capture_output=True, text=True, check=True
    )
    was_set, faults = out.stdout.split()
    return was_set == "True", int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only GNU's C library has these settings")
def test_freed_blocks_are_used_again() -> None:
    was_set, faults = child()
    asis, faults_asis = child(MALLOC_MMAP_THRESHOLD_="131072")  # every large block from the system, as in the beginning
    assert was_set and not asis
    assert faults_asis > 10 * 3 * 1000  # 10 steps of 3 blocks of about 2000 pages
    assert faults < faults_asis / 4
