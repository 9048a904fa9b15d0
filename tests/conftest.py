"""Settings for all tests: one thread per process; property tests draw the same examples each time.

Tests never fetch from the internet, and what they cache is their own: decoded by this code, gone afterwards.
"""

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

torch.set_num_threads(1)

# No deadline: the first call into torch is slow. Derandomized: a failure is found again by running it again.
settings.register_profile(
    "amity",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("amity")

_CACHE = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # workers of xdist inherit the environment
        config.stash[_CACHE] = tempfile.TemporaryDirectory(prefix="amity-tests-")
        os.environ["XDG_CACHE_HOME"] = config.stash[_CACHE].name
        os.environ["AMITY_OFFLINE"] = "1"


def pytest_unconfigure(config: pytest.Config) -> None:
    if _CACHE in config.stash:
        config.stash[_CACHE].cleanup()


@pytest.fixture(autouse=True)
def as_many_threads_as_before() -> Iterator[None]:
    """Fail a test that leaves torch with another number of threads: the next one would compute other last bits."""
    yield
    left = torch.get_num_threads()
    torch.set_num_threads(1)
    assert left == 1, f"this test leaves torch with {left} threads"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


def pytest_collection() -> None:
    """Hold the garbage collector back while tests are imported and made: it finds little, and takes a seventh of it."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep all tests and their modules out of the sight of the garbage collector: they stay, and are a million objects.

    Tests that look which tensors are alive would go through them each time.
    """
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def out_of_sight() -> Iterator[None]:
    """Do the same with what the tests of a file leave behind: libraries that were loaded, caches, reports.

    They stay as well, and in the middle of the suite a look at all tensors would take half a second for them alone.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """One browser for all tests that look at pages.

    They run in a process of their own (`make test`): Playwright's event loop would be in the way of others'.
    """
    from report.browsing import started

    with started() as browser:
        yield browser


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory that is the current one and has the one for temporary files: what is left in it was left behind."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path
