import pytest
import torch
from data.sources import Loaded, Numbered

from amity.contract import InputError, Split
from amity.data import Source, load


@pytest.fixture(scope="session")
def loaded() -> Loaded:
    """A data set by name, read once; the test is skipped where its files are not at hand."""
    cache: dict[str, Source] = {}

    def get(name: str) -> Source:
        if name not in cache:
            try:
                cache[name] = load(name)
            except InputError as error:
                if "not found" not in str(error):
                    raise
                pytest.skip(str(error))
        return cache[name]

    return get


@pytest.fixture(scope="session")
def numbered() -> Numbered:
    """A data set whose examples carry their own position, so that a deal can be traced back.

    `train` and `test` are counts per class.
    """

    def make(train: list[int], test: list[int], name: str = "own") -> Source:
        def split(counts: list[int]) -> Split:
            y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
            return Split(torch.arange(len(y), dtype=torch.float32).unsqueeze(1), y)

        return Source(name, split(train), split(test), len(train))

    return make
