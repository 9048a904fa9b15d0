"""IFCA: k models, one for each cluster of clients; every client trains the one that fits its data best.

Ghosh, Chung, Yin and Ramchandran, An Efficient Framework for Clustered Federated Learning, NeurIPS 2020 (Algorithm 1,
with model averaging, its option II).

    c_i = argmin over j of F_i(w_j^{k-1})                     clients in A_k: the loss on all their training data
    w_i = Local(w_{c_i}^{k-1}, F_i)
    w_j^k = mean of w_i with c_i = j                          server, over A_k; a cluster without clients stays

A client downloads all k models and uploads the one it has trained, with its number. It is evaluated with the current
model of the cluster that it chose last; `holds` in the record says which that is.

Departures. The paper begins with k random models and begins again where that goes wrong. Two random networks differ
more in luck than in fit, so that one often gets all clients; here all k begin at the same model, each client is dealt
one by lot for its first round, and their data drive the clusters apart. `init = independent` is the paper's start.
Losses that tie go to the cluster that was dealt. Averages are over clients with equal weights, as printed; `weighting
= samples` is FedAvg's. Layers that all clusters share, as in its experiment on handwriting, are left out. The paper's
tests choose a cluster once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import MODEL, Download, Federation, Kind, Kinds, Model, Solver, State, Turn, kinds_like
from amity.learn.streams import stream
from amity.learn.task import Task
from amity.learn.train import train
from amity.learn.vectors import weighted_mean


@dataclass(frozen=True)
class IFCA:
    clusters: int = option(3, "number of models, one for each cluster", symbol="k", at_least=1, search="2,3,4,5")
    init: Literal["shared", "independent"] = option(
        "shared", "all clusters begin at one model, dealt by lot, or each at its own random one"
    )
    weighting: Literal["uniform", "samples"] = option("uniform", "weights of the means: all equal, or n_i")

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "server"
    solver: ClassVar[Solver] = Solver("sgd", 0.1)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")
    other_use: ClassVar[str] = "chooses a cluster by the losses of its examples"

    def __post_init__(self) -> None:
        check(self)

    def init_server(self, task: Task, fed: Federation) -> State:
        models = [self._first(task, fed, cluster) for cluster in range(self.clusters)]
        stacked = {f"cluster_{key}": torch.stack([model[key] for model in models]) for key in MODEL}  # [k, d]
        return {**stacked, "sizes": fed.sizes}

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        lot = stream(fed.seed, "cluster", int(fed.keys[client]))
        dealt = torch.randint(self.clusters, (), generator=lot)
        return {"dealt": dealt, "chosen": torch.tensor(-1)}  # it has not chosen yet

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return Download({key: value for key, value in server.items() if key != "sizes"}, {})

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        scores = (task.evaluate(_model(down, j), turn.data.train) for j in range(self.clusters))
        losses = torch.stack([torch.as_tensor(score.loss, dtype=torch.float64) for score in scores]).cpu()  # [k]
        chosen = lowest(losses, client["dealt"])
        model = train(task, _model(down, chosen), turn)
        return {**client, "chosen": chosen}, {**model, "cluster": chosen}

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return {**kinds_like(task.initial(fed)), "cluster": Kind((), torch.int64, least=0, most=self.clusters - 1)}

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        weights = server["sizes"][who] if self.weighting == "samples" else torch.ones(len(who))
        models = [_model(server, cluster) for cluster in range(self.clusters)]
        for cluster in uploads["cluster"].unique().tolist():
            members = (uploads["cluster"] == cluster).nonzero()[:, 0]
            models[cluster] = weighted_mean({key: uploads[key][members] for key in MODEL}, weights[members])
        return {**server, **{f"cluster_{key}": torch.stack([model[key] for model in models]) for key in MODEL}}

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        assert down is not None  # a server method is always given the current download
        return _model(down, torch.where(client["chosen"] < 0, client["dealt"], client["chosen"]))

    def holds(self, client: State) -> str:
        chosen = int(client["chosen"])
        return f"cluster {(int(client['dealt']) if chosen < 0 else chosen) + 1}"

    def _first(self, task: Task, fed: Federation, cluster: int) -> Model:
        if self.init == "shared":
            return task.initial(fed)
        return task.initial(fed._replace(keys=torch.arange(self.clusters)), cluster)  # drawn by the cluster's number


def lowest(losses: Tensor, dealt: Tensor) -> Tensor:
    """The cluster with the lowest loss; where that is a tie, the one dealt if it is among them, else the first."""
    return torch.where(losses[dealt] == losses.min(), dealt, losses.argmin())


def _model(state: State, cluster: int | Tensor) -> Model:
    return {key: state[f"cluster_{key}"][cluster] for key in MODEL}
