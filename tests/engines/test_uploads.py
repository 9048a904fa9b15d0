"""Uploads as rows of matrices: who sees which row, how many matrices are alive, and matrices in files."""

from __future__ import annotations

import errno
import gc
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small import Seen, batchnorm, plan_of, run, same, silo, silos, task
from torch import Tensor, nn

import amity
from amity.config.participation import Participation
from amity.contract import Download, InputError, Pick, State
from amity.engines.local import matrices
from amity.engines.local.matrices import empty, folder_of, moved, with_spare_rows
from amity.engines.local.simulate import simulate
from amity.engines.local.storage import LocalShelf, LocalStorage, housed, share
from amity.federation.events import Event
from amity.federation.plan import federation_of
from amity.federation.silo import Pending, SiloSide
from amity.learn.rows import lent, new_rows, replace_rows
from amity.learn.task import Task
from amity.learn.vectors import mix_models
from amity.methods import _mixing as cloud
from amity.methods import build

M, D = 5, 4


def equal_runs(one: list[Seen], other: list[Seen]) -> bool:
    return len(one) == len(other) and all(
        same(a.progress.server, b.progress.server) and all(map(same, a.clients, b.clients))
        for a, b in zip(one, other, strict=True)
    )


def rows_of(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float32)[:, None].expand(-1, D).clone()


def hosts(states: list[State]) -> dict[int, SiloSide]:
    """Silos that hold these states."""
    plan, at = plan_of("separate", at=silos(len(states)))
    hosted = {client: SiloSide(plan, client, one) for client, one in at.items()}
    for client, state in enumerate(states):
        hosted[client].begin(state)
    return hosted


def upload(shelf: LocalShelf, place: int, silo: SiloSide, value: Tensor) -> None:
    """A turn of a silo that holds what it uploads."""
    silo.pending = Pending(1, {"params": value, "place": torch.tensor(silo.client)})
    shelf.put([place], [silo.client], {"params": value[None]})


def gone_through(who: list[int], accepted: list[int], *, store: bool = True) -> tuple[State, State, list[State]]:
    """One round by hand: `who` are asked, some are accepted; the server before and after, and the silos' states."""
    server = {"params": rows_of(0, 1, 2, 3, 4)}
    hosted = hosts([{"params": server["params"][i]} for i in range(M)])
    storage = LocalStorage(hosted, M)
    with storage.sending():
        down = Download({}, {"params": new_rows(server["params"], len(who)).fill_(7)})
    shelf = storage.shelf(down, server, who)
    for place, client in enumerate(who):
        upload(shelf, place, hosted[client], torch.full((D,), 10.0 + client))
    took = [who[place] for place in accepted]
    rows = shelf.rows(accepted)
    assert rows["params"][:, 0].tolist() == [10.0 + client for client in took]
    with shelf.aggregating():
        after = {"params": replace_rows(server["params"], torch.tensor(took), rows["params"])} if store else server
    for client in who:
        hosted[client].commit(1, "accepted" if client in took else "refused")
    shelf.settle(after, accepted, took)
    return server, after, [hosted[client].state for client in range(M)]


@pytest.mark.parametrize("who", [[0, 1, 2, 3, 4], [0, 1], [3, 4], [1, 2, 4], [0, 4], [2]])
@pytest.mark.parametrize("lose", [[], [0], [-1]])
def test_uploads_become_rows_of_the_server_and_silos_see_them_there(who: list[int], lose: list[int]) -> None:
    accepted = [p for p in range(len(who)) if p not in [at % len(who) for at in lose]]
    if not accepted:
        return
    before, after, states = gone_through(who, accepted)
    took = [who[place] for place in accepted]
    want = [10.0 + i if i in took else float(i) for i in range(M)]
    assert torch.equal(before["params"], rows_of(0, 1, 2, 3, 4))
    assert torch.equal(after["params"], rows_of(*want))
    for client, state in enumerate(states):
        assert torch.equal(state["params"], after["params"][client])
        if who == [client]:  # one silo is sent one row, not the first of a matrix: it keeps a copy of that size
            assert state["params"].untyped_storage().nbytes() == D * 4
        else:
            assert state["params"].data_ptr() == after["params"][client].data_ptr()


@pytest.mark.parametrize("who", [[0, 1, 2, 3, 4], [1, 2, 4]])
def test_a_server_that_keeps_no_rows_leaves_the_silos_their_own(who: list[int]) -> None:
    """Else a silo that is absent for long would keep a whole matrix of its last round alive."""
    _, _, states = gone_through(who, list(range(len(who))), store=False)
    for client in who:
        assert states[client]["params"].tolist() == [10.0 + client] * D
        assert states[client]["params"].untyped_storage().nbytes() == D * 4


class Lender:
    """Storage in which some rows are the first of a larger matrix."""

    def __init__(self, rows: Tensor, room: Tensor) -> None:
        self.rows, self.room, self.asked = rows, room, 0

    def new_rows(self, like: Tensor, count: int) -> Tensor:
        return self.room[:count]

    def room_of(self, rows: Tensor) -> Tensor | None:
        self.asked += 1
        return self.room if rows is self.rows and self.asked == 1 else None


def test_lent_storage_is_used_once_and_the_old_matrix_stays() -> None:
    room, old = rows_of(1, 2, 0, 0), rows_of(5, 6, 7, 8)
    rows, who = room[:2], torch.tensor([1, 3])
    with lent(Lender(rows, room)):
        after = replace_rows(old, who, rows)
        assert torch.equal(after, rows_of(5, 1, 7, 2)) and after.data_ptr() == room.data_ptr()
        again = replace_rows(old, who, rows_of(3, 4))  # given once: another matrix lies elsewhere
        assert torch.equal(again, rows_of(5, 3, 7, 4)) and again.data_ptr() != room.data_ptr()
        assert new_rows(old, 2).data_ptr() == room.data_ptr()
    assert torch.equal(old, rows_of(5, 6, 7, 8))
    assert new_rows(old, 2).data_ptr() != room.data_ptr()


def test_the_shelf_gives_its_room_once() -> None:
    server = {"params": rows_of(0, 1, 2, 3, 4)}
    hosted = hosts([{"params": rows_of(9)[0]} for _ in range(M)])
    shelf = LocalShelf(hosted, Download({}, {}), server, 2, M)
    for place, client in enumerate((1, 3)):
        upload(shelf, place, hosted[client], torch.full((D,), 10.0 + client))
    rows, who = shelf.rows([0, 1])["params"], torch.tensor([1, 3])
    with shelf.aggregating():
        first = replace_rows(server["params"], who, rows)
        assert first.data_ptr() == rows.data_ptr()
        second = replace_rows(server["params"], who, rows)
    assert second.data_ptr() != first.data_ptr()


def test_plain_uploads_are_not_touched() -> None:
    """Also where their storage happens to be large enough."""
    room, old = rows_of(1, 2, 0, 0), rows_of(5, 6, 7, 8)
    assert torch.equal(replace_rows(old, torch.tensor([1, 3]), room[:2]), rows_of(5, 1, 7, 2))
    assert torch.equal(room, rows_of(1, 2, 0, 0))


@pytest.mark.parametrize("kind", ["two keys of one storage", "the server's own", "shared with all", "forwarded"])
def test_storage_that_somebody_else_uses_is_not_written(kind: str) -> None:
    server, both = {"params": rows_of(0, 1, 2, 3, 4)}, rows_of(0, 1, 2, 3, 4, 5)
    down = {
        "two keys of one storage": Download({}, {"params": both[:3], "other": both[3:]}),
        "the server's own": Download({}, {"params": server["params"][:3]}),
        "shared with all": Download({"mean": both[5]}, {"params": both[:3]}),
        "forwarded": Download({}, {"params": both[:3], "cores": Pick(both[3:], torch.zeros(3, 1, dtype=torch.int64))}),
    }[kind]
    shelf = LocalShelf({}, down, server, 3, M)
    for place in range(3):
        shelf.put([place], [place], {"params": torch.full((1, D), 9.0)})
    assert torch.equal(both, rows_of(0, 1, 2, 3, 4, 5)) and torch.equal(server["params"], rows_of(0, 1, 2, 3, 4))


def test_what_a_silo_keeps_of_its_download_is_moved_out_of_the_way() -> None:
    storage = LocalStorage(hosts([{"params": rows_of(0)[0]} for _ in range(M)]), M)
    sent, own = rows_of(0, 1, 2), rows_of(5)[0]
    storage.shelf(Download({}, {"params": sent}), {}, [0, 1, 2])
    apart = storage.apart({"seen": sent[1], "own": own})
    sent.fill_(9)
    assert apart["seen"].tolist() == [1] * D and apart["own"] is own


def test_equal_copies_are_shared_and_others_are_not() -> None:
    server = {"params": rows_of(0, 1, 2), "keys": torch.arange(3)}
    server["params"][1, 0] = 0.0
    negative = server["params"][1].clone()
    negative[0] = -0.0  # equal, but not the same bits
    states = [{"params": rows_of(0)[0]}, {"params": negative}, {"params": rows_of(9)[0], "counts": torch.tensor([2])}]
    share(server, 3, hosts(states).values())
    assert states[0]["params"].data_ptr() == server["params"][0].data_ptr()
    assert states[1]["params"].data_ptr() == negative.data_ptr() and states[1]["params"][0].signbit()
    assert states[2]["params"].tolist() == [9] * D and states[2]["counts"].tolist() == [2]


# How much is alive


class Peak:
    """The most bytes of large tensors that were alive at once, of the times when somebody looked.

    What other tests have left behind does not count; it is held here, so that its place is not taken.
    """

    def __init__(self, least: int) -> None:
        self.bytes = 0
        self._least = least
        self._before: dict[int, torch.UntypedStorage] = {}
        self._before = self._alive()

    def look(self) -> None:
        self.bytes = max(self.bytes, sum(storage.nbytes() for storage in self._alive().values()))

    def _alive(self) -> dict[int, torch.UntypedStorage]:
        gc.collect()  # what a failed lift of another test has left in a cycle has no storage to look at
        tensors = [thing for thing in gc.get_objects() if type(thing) is Tensor and thing.device.type == "cpu"]
        dense = [tensor for tensor in tensors if tensor.layout == torch.strided]
        storages = {storage.data_ptr(): storage for storage in map(Tensor.untyped_storage, dense)}
        return {at: s for at, s in storages.items() if s.nbytes() >= self._least and at not in self._before}


class Wide(nn.Module):
    """Enough parameters that a model stands out among all other tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 20_000, bias=False), nn.Linear(20_000, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(torch.tanh(self.first(x)))
        return out


@pytest.mark.parametrize("method", ["fedamp", "heurfedamp"])
@pytest.mark.parametrize(
    ("pool", "rule"),
    [("active", {}), ("active", {"participation": 0.7}), ("latest", {"participation": 0.7, "drop": 0.2})],
)
def test_at_most_two_matrices_and_a_block_are_alive(
    method: str, pool: str, rule: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything counts: the server's models, downloads, uploads and what clients hold, at any time in a round."""
    clients = 24
    at = [silo(f"silo {i}", 4) for i in range(clients)]
    on = Task(Wide, (3,), 3)
    model = on.size * 4
    peak = Peak(model)

    def looking(function: Callable[..., Any]) -> Callable[..., Any]:
        def looked(*arguments: Any, **named: Any) -> Any:
            out = function(*arguments, **named)
            peak.look()
            return out

        return looked

    monkeypatch.setattr(cloud, "mix_models", looking(mix_models))
    monkeypatch.setattr(cloud, "replace_rows", looking(replace_rows))

    def look(event: Event) -> None:
        if event.what == "trained":
            assert event.total is not None
            if event.done in (event.total // 2, event.total):
                peak.look()
        elif event.what == "aggregated":
            peak.look()

    built = build(method, {"pool": pool})
    fed = federation_of(at, 3, 1)
    steps = simulate(
        built,
        on,
        at,
        fed,
        built.solver,
        Participation(epochs=1, **rule),
        workers=1,
        events=look,
    )
    assert sum(1 for _ in steps) == 3
    working = 12 * model  # the first model; a worker's own vectors, gradient and optimiser
    assert clients * model < peak.bytes <= 2 * clients * model + working


# Matrices in files


def test_a_new_matrix_lies_where_the_one_it_is_made_from_lies(tmp_path: Path) -> None:
    here = moved(rows_of(1, 2, 3), tmp_path)
    assert torch.equal(here, rows_of(1, 2, 3)) and folder_of(here) == tmp_path
    assert folder_of(with_spare_rows(here, 2)) == tmp_path and with_spare_rows(here, 2).shape == (2, D)
    assert folder_of(rows_of(1)) is None and folder_of(with_spare_rows(rows_of(1, 2), 1)) is None
    shown = moved(rows_of(1).expand(3, -1), tmp_path)
    assert shown.stride(0) == 0 and shown.shape == (3, D) and folder_of(shown) == tmp_path
    assert empty(here, (3, 0), tmp_path).shape == (3, 0)
    assert list(tmp_path.iterdir()) == []  # a file without a name goes with its tensor


@pytest.mark.parametrize("method", ["fedamp", "heurfedamp", "apple", "fedavg", "fedfomo", "twin", "vrlsgd"])
@pytest.mark.parametrize("participation", [1.0, 0.6])
def test_matrices_in_files_give_the_same_bits(method: str, participation: float, tmp_path: Path) -> None:
    rule: dict[str, Any] = {"on": task(batchnorm), "rounds": 4, "epochs": 1, "participation": participation}
    mapped = run(method, **rule, matrix_dir=tmp_path)
    assert equal_runs(run(method, **rule), mapped)
    kept = {key: folder_of(value) for key, value in mapped[-1].progress.server.items()}
    assert method in ("fedavg", "vrlsgd") or tmp_path in kept.values()
    assert list(tmp_path.iterdir()) == []


def test_matrices_in_files_can_be_resumed(tmp_path: Path) -> None:
    whole = run("fedamp", rounds=4)
    first = run("fedamp", rounds=4, matrix_dir=tmp_path)[1]
    assert equal_runs(whole[2:], run("fedamp", rounds=4, start=first.saved))
    assert equal_runs(whole[2:], run("fedamp", rounds=4, start=whole[1].saved, matrix_dir=tmp_path))


def test_a_folder_without_room_is_refused_before_round_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=M * 12 * 8 * 2 - 1))
    server = {"params": torch.zeros(M, 12, dtype=torch.float64), "heard": torch.zeros(M, dtype=torch.bool)}
    with pytest.raises(InputError, match="matrix_dir needs 0.00 GiB for two matrices of models, .* has 0.00 GiB"):
        housed(server, M, tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=M * 12 * 8 * 2))
    assert same(housed(server, M, tmp_path), server)


def test_a_disk_that_fills_up_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, start: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match=r"matrix_dir needs 0.00 GiB more for models, .* \(No space left on device\)"):
        empty(rows_of(1), (2, 3), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_folders_are_checked_before_anything_is_computed(tmp_path: Path) -> None:
    digits: dict[str, Any] = {"clients": 2, "rounds": 1, "epochs": 1}
    with pytest.raises(InputError, match="matrix_dir needs a directory that exists, got .*nowhere: create it"):
        amity.run(amity.Run("fedamp", matrix_dir=str(tmp_path / "nowhere"), **digits))
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InputError, match="matrix_dir needs a directory that exists"):
        amity.run(amity.Run("fedamp", matrix_dir=str(file), **digits))
    with pytest.raises(InputError, match="matrix_dir needs models in main memory, got device meta"):
        matrices.check_folder(tmp_path, torch.device("meta"))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no directory here in which not even root can write")
def test_folders_that_cannot_be_written_are_refused() -> None:
    with pytest.raises(InputError, match="matrix_dir needs a directory to write in, /proc/self cannot be written"):
        matrices.check_folder(Path("/proc/self"), torch.device("cpu"))


def test_a_run_with_matrices_in_files_is_the_same_run(tmp_path: Path) -> None:
    wanted: dict[str, Any] = {"clients": 4, "rounds": 2, "epochs": 1, "participation": 0.5}
    plain = amity.run(amity.Run("heurfedamp", **wanted))
    mapped = amity.run(amity.Run("heurfedamp", matrix_dir=str(tmp_path), **wanted))
    for name in plain.accuracy:
        one, other = plain.model(name).state_dict(), mapped.model(name).state_dict()
        assert same(one, other)
    assert list(tmp_path.iterdir()) == []
