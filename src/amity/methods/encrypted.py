"""Encrypted: an attention method whose server computes with models that it cannot read (`--encrypted`).

    before round 1    the silos agree on a key: one of them makes it, and packs it for each of the others in a box
                      that the server carries and cannot open (`learn/boxes.py`). The server gets keys to compute with
    in a round        silo i trains as ever, and uploads x_i = w_i - w^0, encrypted; |x_i|^2 and <x_i, w^0>, which the
                      similarity of some methods needs, and BatchNorm's counters, as they are
                      the server computes each <x_i, x_j>, encrypted, as one number
                      silo i or j decrypts it, adds noise, and tells it
    next download     the server knows the Gram matrix of all x_i, and with it all models up to a rotation: it chooses
                      points with this Gram matrix, and gives them to the method in place of the models. The method's
                      rule sees distances and angles alone, so it finds the weights that it would have found
                      it mixes u_i = w^0 + sum over j of xi_ij x_j, encrypted, for silo i, which decrypts it

The rule is the method's own code, so options such as `pool`, and `--min-mix`, mean what they mean in plain. What is
computed with encrypted numbers has errors below 1e-7, and decrypted inner products noise of about 5e-7 of the
lengths: results agree with those in plain up to that, not bit for bit, and two runs do not agree bit for bit either.

docs/encrypted.md has what this protects from, and what not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from amity.contract import (
    Choosing,
    Download,
    Federation,
    InputError,
    Kind,
    Kinds,
    Model,
    Question,
    State,
    Turn,
    declared,
    gradients_of,
    kinds_like,
)
from amity.learn import boxes, ciphers
from amity.learn.padding import bytes_of, unpadded
from amity.learn.rows import replace_rows
from amity.learn.task import Task
from amity.methods._blind import others, pairs_of, points
from amity.methods._key_holder import CLIENTS, PRIVATE, SECRET, answered
from amity.methods._wrapper import Wrapper

FIRST = {"params": "first/params", "buffers": "first/buffers"}  # of a silo's state: w^0
OWN = (*FIRST.values(), SECRET, PRIVATE, CLIENTS)


@dataclass(frozen=True)
class Encrypted(Wrapper):
    """An attention method on encrypted models. `resolve` makes it, from the option `encrypted` of a run."""

    raw: bool  # whether similarities are those of models as they are, and not of what they have moved

    @property
    def evaluates(self) -> Literal["held", "server"]:
        return self.base.evaluates

    def init_server(self, task: Task, fed: Federation) -> State:
        base = self.base.init_server(task, fed)
        facts = {key: value for key, value in base.items() if key not in ("params", "buffers", "pairs", "origin")}
        marks = {"origin": torch.tensor(True)} if "origin" in base else {}
        first = task.initial(fed)
        clients, widths = fed.clients, _widths(first)
        return {
            **facts,
            **marks,
            "sealed": torch.zeros(1, sum(widths) * ciphers.SEALED, dtype=torch.uint8).expand(clients, -1),
            "width": torch.tensor(widths[0]),  # blocks of parameters; those of buffers follow
            "gram": torch.zeros(clients, clients, dtype=torch.float64),  # of x
            "along": torch.zeros(clients, dtype=torch.float64),  # <x_i, w^0>
            "first": first["params"].double().square().sum(),  # |w^0|^2
            "keys": torch.zeros(0, dtype=torch.uint8),
            "publics": torch.zeros(clients, boxes.PUBLIC, dtype=torch.uint8),
            "boxes": torch.zeros(0, dtype=torch.uint8),
        }

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        first = task.initial(fed)  # shared by all: it takes no memory
        return {
            **self.base.init_client(task, fed, client),
            **{name: first[key] for key, name in FIRST.items()},
            SECRET: torch.zeros(0, dtype=torch.uint8),
            PRIVATE: torch.zeros(0, dtype=torch.uint8),
            CLIENTS: torch.tensor(fed.clients),
        }

    def opening(self, server: State, step: int, who: list[int]) -> Question | None:
        if len(server["keys"]) and step == 0:
            return None
        if step == 0:
            return Question(who, Download({"public": torch.tensor(True)}, {}))
        if step == 1:
            return Question(who[:1], Download({"publics": server["publics"][who]}, {}))
        if step == 2:
            by = server["publics"][who[:1]].expand(len(who), -1)
            return Question(who, Download({}, {"box": server["boxes"], "by": by}))
        return None

    def opened(self, server: State, who: list[int], answers: State) -> State:
        if "public" in answers:
            return {**server, "publics": server["publics"].index_copy(0, torch.tensor(who), answers["public"])}
        if "keys" in answers:
            return {**server, "keys": answers["keys"][0], "boxes": answers["boxes"][0]}
        return {**server, "boxes": server["boxes"].new_zeros(0)}  # they have been delivered

    def answer(self, task: Task, client: State, down: State) -> tuple[State, State]:
        return answered(client, down)

    def answer_kinds(self, fed: Federation, down: Download) -> Kinds:
        if "public" in down.shared:
            return {"public": Kind((boxes.PUBLIC,), torch.uint8)}
        if "publics" in down.shared:
            packed = len(down.shared["publics"]), ciphers.SECRET + boxes.TAG
            return {"keys": Kind((ciphers.EVALUATION,), torch.uint8), "boxes": Kind(packed, torch.uint8)}
        return {"products": Kind((fed.clients,), torch.float64)} if "products" in down.each else {}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        seen = self._seen(server)
        down = self.base.download(seen, who, round, rng)
        if "params" not in down.each:  # an ending, in which silos go on from what they have
            return down
        weights = down.weights
        if weights is None and isinstance(self.base, Wrapper):  # an ending records none, and mixes by them all the same
            weights = self.base.base.download(seen, who, round, rng).weights
        assert weights is not None
        each = {key: value for key, value in down.each.items() if key not in ("params", "buffers")}
        heard = server["heard"].nonzero()[:, 0].tolist()
        if heard:  # before, everybody has the first model
            each["mixture"] = self._mixed(server, weights, who, heard)
        return down._replace(each=each)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        own, mine = _parted(client)
        own, upload = self.base.local(task, own, self.opened_by(mine, down), turn)
        after = {**own, **mine}
        if not upload:
            return after, upload
        moved = {key: upload[key].double() - mine[name].double() for key, name in FIRST.items()}
        square = moved["params"].square().sum()
        far = (moved["buffers"].abs() > ciphers.LARGEST).any() | moved["buffers"].isnan().any()
        if (
            not square <= ciphers.LONGEST**2 or far
        ):  # which is then refused, as numbers that are not finite are in any case
            square, moved = torch.full_like(square, math.inf), {key: value * 0 for key, value in moved.items()}
        holder = ciphers.Holder(bytes_of(mine[SECRET]))
        sealed = torch.cat([holder.encrypted(value.nan_to_num()).flatten() for value in moved.values()])
        along = moved["params"].nan_to_num() @ mine[FIRST["params"]].double() if self.raw else torch.zeros_like(square)
        return after, {"sealed": sealed, "square": square, "along": along, "counts": upload["counts"]}

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds | None:
        kinds = declared(self.base, task, fed, down)
        if not kinds:
            return kinds
        width = sum(_widths(task.initial(fed))) * ciphers.SEALED
        number = Kind((), torch.float64)
        return {
            "sealed": Kind((width,), torch.uint8),
            "square": number._replace(least=0),
            "along": number,
            "counts": kinds_like(task.initial(fed))["counts"],
        }

    def question(self, server: State, who: list[int], uploads: State) -> Question | None:
        if "sealed" not in uploads:
            return None
        vectors, refused = {}, {}
        width = int(server["width"])
        for client, row in zip(who, uploads["sealed"], strict=True):
            try:
                vectors[client] = ciphers.loaded(row.view(-1, ciphers.SEALED))[:width]
            except ciphers.Damaged as error:
                refused[client] = f"upload refused: {error}"
        if refused:
            return Question([client for client in who if client not in refused], Download({}, {}), refused)
        pairs = pairs_of(who, server["heard"])
        most = max(len(partners) for partners in pairs.values())
        if not most:
            return None
        lengths = server["gram"].diagonal().index_copy(0, torch.tensor(who), uploads["square"]).sqrt()
        vectors |= {j: _blocks_of_silo(server, j)[:width] for j in others(who, server["heard"])}
        evaluator = ciphers.Evaluator(unpadded(server["keys"]))
        products = torch.zeros(len(who), most, ciphers.PRODUCT, dtype=torch.uint8)
        partners = torch.full((len(who), most), -1)
        sizes = torch.zeros(len(who), most, dtype=torch.float64)
        for place, (client, partners_of) in enumerate(pairs.items()):
            for at, other in enumerate(partners_of):
                products[place, at] = evaluator.inner_product(vectors[client], vectors[other])
                partners[place, at], sizes[place, at] = other, lengths[client] + lengths[other]
        count = torch.tensor(width * ciphers.SLOTS)
        return Question(who, Download({"count": count}, {"products": products, "partners": partners, "sizes": sizes}))

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        if "sealed" not in uploads:
            return server
        gram = server["gram"].diagonal().index_copy(0, who, uploads["square"])
        longest = gram.sqrt()[:, None] * gram.sqrt()  # what is more than that comes from a silo that lies
        gram = server["gram"].diagonal_scatter(gram)
        for place, (client, partners_of) in enumerate(pairs_of(who.tolist(), server["heard"]).items()):
            for other in partners_of:
                gram[client, other] = gram[other, client] = uploads["products"][place, other]
        return {
            **server,
            "sealed": replace_rows(server["sealed"], who, uploads["sealed"]),
            "counts": replace_rows(server["counts"], who, uploads["counts"]),
            "along": server["along"].index_copy(0, who, uploads["along"]),
            "heard": server["heard"].index_fill(0, who, True),
            "gram": gram.clamp(-longest, longest),
        }

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        own, mine = _parted(client)
        return self.base.personal(task, own, None if down is None else self.opened_by(mine, down), turn)

    def gradients(self, epochs: int, batches: int) -> int:
        return gradients_of(self.base, epochs, batches)

    def holds(self, client: State) -> str:
        return self.base.holds(_parted(client)[0]) if isinstance(self.base, Choosing) else ""

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        raise InputError("a run on encrypted models has no place for one more silo, which has no key: begin a new run")

    def _seen(self, server: State) -> State:
        """The server as the method is to see it: points with the models' Gram matrix in the place of the models."""
        count = len(server["gram"])
        if self.raw:
            whole = torch.zeros(count + 1, count + 1, dtype=torch.float64)
            whole[:count, :count] = server["gram"]
            whole[count, :count] = whole[:count, count] = server["along"]
            whole[count, count] = server["first"]
            *_, origin = found = points(whole)
            models = found[:count] + origin
        else:
            models = points(server["gram"])
            origin = torch.zeros_like(models[0])
        ours = ("sealed", "width", "gram", "along", "first", "keys", "publics", "boxes", "origin")
        facts = {key: value for key, value in server.items() if key not in ours}
        marks = {"origin": origin} if "origin" in server else {}
        return {**facts, **marks, "params": models, "buffers": models.new_zeros(count, 0)}

    def _mixed(self, server: State, weights: Tensor, who: Tensor, heard: list[int]) -> Tensor:
        """What each silo is sent: its mixture of what the others have moved, encrypted.  # [who, bytes]"""
        if not torch.allclose(weights.sum(1), torch.ones(len(who), dtype=weights.dtype), atol=1e-9):
            raise InputError("encrypted needs weights that sum to 1, the method has others: choose its usual options")
        vectors = {j: _blocks_of_silo(server, j) for j in heard if bool(weights[:, j].any()) or j in who.tolist()}
        evaluator = ciphers.Evaluator(unpadded(server["keys"]))
        width, rows = int(server["width"]), []
        for i, row in zip(who.tolist(), weights.tolist(), strict=True):
            own = [float(i == j) for j in range(len(row))]
            kept = row if min(row) >= 0 else own  # any other weights could make a variance negative
            parts = [
                evaluator.mixture({j: part[j] for j in vectors}, {j: vectors[j][cut] for j in vectors})
                for part, cut in ((row, slice(None, width)), (kept, slice(width, None)))
            ]
            rows.append(torch.cat(parts).flatten())
        return torch.stack(rows)

    def opened_by(self, mine: State, down: State) -> State:
        """What a silo was sent, with the model in it decrypted."""
        if "counts" not in down:
            return down
        first = {key: mine[name] for key, name in FIRST.items()}
        found = {key: value for key, value in down.items() if key != "mixture"}
        if "mixture" not in down:
            return {**found, **first}
        holder = ciphers.Holder(bytes_of(mine[SECRET]))
        rest = down["mixture"].view(-1, ciphers.MIXED)
        for key, value in first.items():
            count = ciphers.blocks_of(len(value))
            moved, rest = holder.decrypted(rest[:count], len(value)), rest[count:]
            found[key] = (value.double() + moved).to(value.dtype)
        return found


def _parted(client: State) -> tuple[State, State]:
    """The method's own state, and what belongs to the encryption."""
    mine = {key: client[key] for key in OWN}
    return {key: value for key, value in client.items() if key not in mine}, mine


def _blocks_of_silo(server: State, client: int) -> list[object]:
    return ciphers.loaded(server["sealed"][client].view(-1, ciphers.SEALED))


def _widths(first: Model) -> tuple[int, int]:
    """Blocks of parameters, and of buffers."""
    return ciphers.blocks_of(len(first["params"])), ciphers.blocks_of(len(first["buffers"]))
