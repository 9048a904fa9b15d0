"""Laws of state: pure functions, states that keep their form, equal seeds and equal bits, resuming."""

from __future__ import annotations

from typing import Any

import safetensors.torch
import torch

from amity.contract import State
from amity.federation.plan import federation_of
from amity.federation.reports import Progress
from amity.federation.resume import Saved
from amity.learn.streams import stream
from amity.testing.cases import FULL, SOME, UNEVEN, Case, On, check_equal, check_same, check_states, law, usual
from amity.testing.federation import batchnorm, dropout, flat, fresh_task, near, run, silos, task
from amity.testing.watched import Declaring, Watched, form

LOSSY: dict[str, Any] = {"epochs": 1, "participation": 0.8, "drop": 0.3, "drop_phase": "after"}


@law(over=("memory",))  # plain storage: what the local engine lends may be used up, which is not this law's business
def pure(case: Case, on: On) -> None:
    """The six functions are pure: arguments stay as they are, equal calls give equal results."""
    watched = Watched(case.method)
    run(watched, on=task(batchnorm), engine=on, **LOSSY)
    wanted = {"init_server", "init_client", "download", "local", "aggregate", "personal"}
    assert watched.called == wanted, f"never called: {sorted(wanted - watched.called)}"


@law(over=("loop",))
def lent_storage(case: Case, on: On) -> None:
    """Storage that the local engine lends changes no bit."""
    plain = run(Watched(case.method), on=task(batchnorm), engine="memory", **LOSSY)
    for one, other in zip(run(case.method, on=task(batchnorm), engine=on, **LOSSY), plain, strict=True):
        check_same(one.server, other.server, f"round {one.round}, server state")
        check_states(one.clients, other.clients, f"round {one.round}, state")


@law()
def form_of_states(case: Case, on: On) -> None:
    """States keep their keys, shapes and types."""
    at, method = silos(), case.method
    fed = federation_of(at, 3, 1)
    server = form(method.init_server(task(batchnorm), fed))
    clients = [form(method.init_client(task(batchnorm), fed, i)) for i in range(len(at))]
    for report in usual(case, on):
        assert form(report.server) == server, f"round {report.round}: server {form(report.server)}, at first {server}"
        for i, client in enumerate(report.clients):
            assert form(client) == clients[i], f"round {report.round}, silo {i}: {form(client)}, at first {clients[i]}"


@law()
def form_of_models(case: Case, on: On) -> None:
    """Personal models fit the task."""
    wanted = form(task(batchnorm).init(stream(0, "any")))
    for model in usual(case, on)[-1].models:
        assert form(model) == wanted, f"a personal model is {form(model)}, the task's are {wanted}"


@law()
def same_seed(case: Case, on: On) -> None:
    """A run with the same seed is the same to the last bit."""
    check_equal(usual(case, on), run(case.method, on=fresh_task(batchnorm), epochs=1, participation=0.8, engine=on))


@law(variants=False)
def keyed_draws(case: Case, on: On) -> None:
    """The model's own draws come from keyed streams, not from the process-wide generator."""
    torch.manual_seed(1)
    one = run(case.method, on=task(dropout), rounds=2, epochs=1, engine=on)
    torch.manual_seed(2)
    check_equal(one, run(case.method, on=task(dropout), rounds=2, epochs=1, engine=on))


@law(variants=False)
def another_seed(case: Case, on: On) -> None:
    """Another seed gives other models."""
    other = run(case.method, on=task(batchnorm), epochs=1, participation=0.8, seed=2, rounds=1, engine=on)
    assert not near(flat(usual(case, on)[0]), flat(other[0])), "models of two seeds are equal"


@law(over=("loop",), variants=False)
def workers(case: Case, on: On) -> None:
    """Results do not depend on the number of workers."""
    for make in (dropout, batchnorm):
        one = run(case.method, on=task(make), rounds=2, epochs=1, workers=1)
        check_equal(one, run(case.method, on=fresh_task(make), rounds=2, epochs=1, workers=2))


def through_disk(saved: Saved) -> Saved:
    """A checkpoint as its bytes."""

    def value(state: State) -> State:
        return safetensors.torch.load(safetensors.torch.save({k: v.clone().contiguous() for k, v in state.items()}))

    progress = saved.progress
    kept = Progress(progress.round, value(progress.server), dict(progress.settled))
    return Saved(kept, [value(state) for state in saved.states])


def check_resume(case: Case, on: On, lossy: dict[str, Any]) -> None:
    """Compare a run that was interrupted after two rounds with one that was not."""
    whole = run(case.method, on=task(batchnorm), rounds=4, epochs=1, engine=on, **lossy)
    start = through_disk(whole[1].saved)
    resumed = run(case.method, on=fresh_task(batchnorm), rounds=4, epochs=1, start=start, engine=on, **lossy)
    assert [report.round for report in resumed] == [3, 4], "rounds 3 and 4 are left"
    check_equal(whole[2:], resumed)


@law()
def resume(case: Case, on: On) -> None:
    """A run that is resumed equals one that was not interrupted, with silos that miss rounds."""
    check_resume(case, on, SOME)


@law(variants=False)
def resume_of_full_rounds(case: Case, on: On) -> None:
    """A run that is resumed equals one that was not interrupted, with all silos in all rounds."""
    check_resume(case, on, FULL)


@law(over=("memory",))
def carriers(case: Case, on: On) -> None:
    """A run over encoded messages equals one in which silos are called, to the last bit."""
    for lossy in (FULL, SOME, UNEVEN):
        how: dict[str, Any] = {"on": task(batchnorm), "epochs": 1, **lossy}
        check_equal(run(case.method, engine="loop", **how), run(case.method, engine=on, **how))


@law(over=("memory",))
def declared_uploads(case: Case, on: On) -> None:
    """Uploads are what the method has declared."""
    method = Declaring(case.method)
    reports = run(method, on=task(batchnorm), epochs=1, participation=0.8, engine=on)
    assert "upload_kinds" in method.called, "upload_kinds is never asked for"
    for size, report in zip(method.sizes, reports, strict=True):
        assert report.bytes_up == len(report.took_part) * size, f"{report.bytes_up} bytes, declared {size} for each"
