"""A model tried on blank examples before anything is trained: whether it fits the data, and what it does."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from amity.contract import InputError


def draws_numbers(module: nn.Module, shape: tuple[int, ...], classes: int, like: Tensor) -> bool:
    """Check the output's shape on two blank examples; return whether the model draws random numbers in training.

    `classes`: 0 where labels are quantities. `like`: a tensor of the model's type and place. The module is used up.
    """
    x = like.new_zeros(2, *shape)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        before = torch.get_rng_state()
        try:
            out = module.train()(x)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"the model must accept examples of shape {shape}, but it failed: {reason}") from error
        drew = not torch.equal(before, torch.get_rng_state())
    got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
    wanted = classes or 1
    if got != (2, wanted):
        what = "one score per class" if classes else "one value, as labels are quantities"
        raise InputError(
            f"a model must give {what}, [n, {wanted}], got {got} for n = 2: "
            f"change its last layer to {wanted} output{'s' if wanted > 1 else ''}"
        )
    return drew
