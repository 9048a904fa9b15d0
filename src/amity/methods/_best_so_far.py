"""The best common model so far: a path that has gone past its best point is followed back to it for the ending.

A common model can learn the silos' training examples by heart, and then there is little left to go on from. Whether it
does shows on examples that silos hold out. With each upload a silo says how the model that it was sent does on its own,
one number, and so the server knows a round later how good its model was:

    L_i(w)    silo i's summed loss on its held-out examples
    w' is worse than w    if  sum_i d_i min(1, c / |d_i|) > 0,   d_i = L_i(w') - L_i(w),   c = median of |d_i|

over the silos of the round: no silo's word counts for more than the middle one's. Of a silo that had not judged w, the
loss of the model that it has judged last stands for L_i(w); silos that judge for the first time say nothing about which
is better, and where there are only such the later model is taken. The model of the last round has not been judged. It
is taken where the one before it is the best so far.
"""

from __future__ import annotations

import torch
from torch import Tensor

from amity.contract import MODEL, Federation, Kind, Model, State, Turn, model_of
from amity.learn.task import Task

HELD_OUT = "held_out"
"""In an upload: the summed loss on held-out examples of the model that the silo was sent; 0 where it holds none out."""

WORST = 1e30
"""What a loss is at most."""

UNKNOWN = -1.0
"""The loss of a silo that has not judged a model."""

_LOSSES, _ROUND = "best/losses", "best/round"


def nothing_judged(model: Model, fed: Federation) -> State:
    """The part of the server's state before the first round."""
    unknown = torch.full((fed.clients,), UNKNOWN, dtype=torch.float64)
    return {**_best(model), _LOSSES: unknown, _ROUND: torch.tensor(0)}


def judged(task: Task, down: State, turn: Turn) -> State:
    """The part of an upload: what a silo says of the model that it was sent."""
    if turn.data.val is None:
        return {HELD_OUT: down["params"].new_zeros(())}
    params = down["params"]
    loss = torch.as_tensor(task.evaluate(model_of(down), turn.data.val).loss, dtype=params.dtype, device=params.device)
    return {HELD_OUT: loss.nan_to_num(nan=WORST, posinf=WORST).clamp(0.0, WORST)}  # a broken model is no broken upload


def judged_kind(model: Model) -> dict[str, Kind]:
    """What that part must be."""
    return {HELD_OUT: Kind((), model["params"].dtype, least=0)}


def best_so_far(server: State, who: Tensor, uploads: State, round: int) -> State:
    """The part of the server's state after this round, in which silos have judged the model of the one before."""
    said = uploads[HELD_OUT].double().cpu()
    before = server[_LOSSES][who]
    if worse((said - before)[before != UNKNOWN]):
        return {key: server[key] for key in (*_best(server), _LOSSES, _ROUND)}
    losses = server[_LOSSES].clone()
    losses[who] = said
    return {**_best(server), _LOSSES: losses, _ROUND: torch.tensor(round - 1)}


def turned(after: State, round: int) -> bool:
    """Whether the model that was judged in this round was worse than the best before it: `after` is the state then."""
    return int(after[_ROUND]) < round - 1


def worse(differences: Tensor) -> bool:
    """Whether a model whose losses differ by so much from another's, silo by silo, is the worse one.

    >>> worse(torch.tensor([-1.0, -1.0, 500.0]))
    False
    """
    return bool(limited(differences).sum() > 0)


def limited(differences: Tensor, medians: float = 1.0) -> Tensor:
    """Differences in loss, no silo's larger than so many of the middle one's.  # [n]

    >>> limited(torch.tensor([-1.0, -1.0, 500.0]))
    tensor([-1., -1.,  1.])
    """
    if not len(differences):
        return differences
    longest = medians * differences.abs().quantile(0.5)
    return differences.clamp(-longest, longest)


def to_go_on_from(server: State, round: int) -> Model:
    """The model that silos go on from in the round after the last."""
    if int(server[_ROUND]) >= round - 2:  # the last that was judged: what came after it may be better still
        return model_of(server)
    return best_model(server)


def best_model(server: State) -> Model:
    """The best model among those that have been judged."""
    return {key: server[f"best/{key}"] for key in MODEL}


def _best(model: State) -> State:
    return {f"best/{key}": model[key] for key in MODEL}
