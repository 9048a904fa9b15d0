"""Silos that join and silos that leave while a run goes on.

A silo has its number for life. Newcomers are appended; whoever leaves stays absent from then on. What the others hold
does not change by it. Where the shape of a tensor follows the number of silos, it keeps its old content in the leading
corner, and takes what the first state of the larger federation has elsewhere:

    sizes [m]       the old ones, then the newcomer's            relations [m]    learnt ones, then a first one
    models [m, d]   everybody's last, then a first model         affinity [m, m]  the same along both axes

A single number that counts the silos is counted anew. Both sides use these functions, each for its own states. A method
for which this rule is not right says more (`Grows`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from amity.contract import Federation, Grows, InputError, Method, State
from amity.federation.plan import Member
from amity.learn.streams import key_of
from amity.learn.task import Task


def with_member(fed: Federation, member: Member) -> Federation:
    """The public facts with one more silo, at the end."""
    groups = None
    if fed.groups is not None and member.group is not None:
        groups = torch.cat([fed.groups, torch.tensor([member.group])])
    sizes = torch.cat([fed.sizes, torch.tensor([member.size])])
    keys = torch.cat([fed.keys, torch.tensor([key_of(member.name)])])
    return fed._replace(sizes=sizes, keys=keys, groups=groups)


def of_this_method(method: Method, task: Task, fed: Federation, server: State) -> State:
    """The server's state as it was saved; refused where it lacks what the method keeps today, as an older one may."""
    one = fed._replace(sizes=fed.sizes[:1], keys=fed.keys[:1], groups=None if fed.groups is None else fed.groups[:1])
    missing = sorted(method.init_server(task, one).keys() - server.keys())
    if missing:
        raise InputError(
            f"a saved server needs all that its method keeps, {', '.join(missing)} is missing: another version of "
            "Amity has saved it, go on with that one or run anew"
        )
    return server


def grow_server(method: Method, task: Task, before: Federation, after: Federation, server: State) -> State:
    """The server's state in a larger federation."""
    first, larger = method.init_server(task, before), method.init_server(task, after)
    grown = {key: _grown(value, first[key], larger[key]) for key, value in server.items()}
    return method.grow_server(task, before, after, grown) if isinstance(method, Grows) else grown


def grow_client(method: Method, task: Task, before: Federation, after: Federation, client: int, state: State) -> State:
    """The state of a silo that was there before, in a larger federation."""
    first, larger = (method.init_client(task, fed, client) for fed in (before, after))
    grown = {key: _grown(value, first[key], larger[key]) for key, value in state.items()}
    return method.grow_client(task, before, after, client, grown) if isinstance(method, Grows) else grown


def _grown(value: Tensor, first: Tensor, larger: Tensor) -> Tensor:
    """A tensor in a larger federation, whose first value has changed from `first` to `larger`."""
    if first.shape != larger.shape:
        out = larger.clone()
        out[tuple(slice(0, size) for size in value.shape)] = value
        return out
    counted = first.dim() == 0 and not torch.equal(first, larger) and torch.equal(value, first)
    return larger if counted else value
