"""The memory engine: silos that are reached by bytes, in the thread of whoever asks."""

import pytest
import torch

from amity.learn.threads import one_thread
from amity.testing import check_method


@pytest.mark.parametrize("method", ["fedavg", "fedavg-ft", "apfl"])
def test_results_do_not_depend_on_the_threads_of_who_asks(method: str) -> None:
    """A method's author has as many threads as cores; a model with BatchNorm shows it in the last bit."""
    with one_thread():  # puts back what there was
        torch.set_num_threads(2)
        check_method(method, laws=["lent_storage", "carriers"])


def test_one_thread_is_for_the_time_being() -> None:
    before = torch.get_num_threads()
    with pytest.raises(KeyError), one_thread():
        assert torch.get_num_threads() == 1
        torch.set_num_threads(2)
        raise KeyError
    assert torch.get_num_threads() == before
