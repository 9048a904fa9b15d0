"""Files of every format that Amity reads, and messages, changed at random: read, or refused in one line.

Whole files of each kind are made once and mangled again and again (`mangling.py`). A reader may take what is still
right; anything else must be an error of Amity's own in one line, after at most some seconds, and in no more memory
than the limit on the address space leaves.
"""

from __future__ import annotations

import io
import random
import shutil
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file

from amity.config.file import read_config
from amity.config.run import Run
from amity.contract import InputError
from amity.data.formats import cifar, idx, images, npz
from amity.data.memory import MemoryBudget
from amity.data.schema.schema_file import read_schema
from amity.engines.flare.kits import signing_key
from amity.engines.flare.kits.admission import read_admission
from amity.engines.flare.kits.consortium import read_consortium
from amity.engines.flare.kits.request import read_request
from amity.errors import AmityError
from amity.federation import audit, signed
from amity.federation.approvals import approve, read_approvals
from amity.federation.encoding import decode, encode
from amity.federation.messages import Answer, Commit, Measured, Message, Standing, Train, Upload
from amity.federation.reports import Progress, Round, Settled
from amity.federation.stored_server import StoredServer
from amity.hub.run_file import contract_of_file
from amity.prepare import prepare, silos_of
from amity.site.config import load_site
from benchmarks.soak.command import TooLong, alone_on_disk, call, limited, within
from benchmarks.soak.mangling import mangled
from benchmarks.soak.tally import Tally
from benchmarks.soak.world import World

EACH, QUICK = 200, 8  # files of each kind
SECONDS = 10.0  # for one file
ROOM = 3 << 30  # bytes that a reader may take beyond what is there already


class Kind(NamedTuple):
    """One kind of file."""

    content: bytes  # of a whole one
    read: Callable[[Path], object]
    name: str = "file"  # that it has on disk


def soak(tally: Tally, folder: Path) -> None:
    """Mangle files of every kind, and messages, and read them."""
    draw = random.Random(f"files {tally.seed}")
    with alone_on_disk(folder), limited(ROOM), warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning is a second line
        for name, kind in kinds(folder).items():
            place = folder / "mangled"
            place.mkdir()
            path = place / kind.name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(kind.content)
            if (trouble := outcome(kind, path)) is not None:
                raise RuntimeError(f"a whole {name} cannot be read: {trouble}")
            for number in range(QUICK if tally.quick else EACH):
                content = mangled(draw, kind.content)
                path.write_bytes(content)
                try:
                    refusal = outcome(kind, path)
                except (Exception, TooLong) as error:
                    tally.fail(f"{name} {number}: {type(error).__name__}: {error}, from {content[:60]!r}")
                else:
                    tally.add(f"{name}: {'read' if refusal is None else 'refused'}")
                    if refusal is not None and ("\n" in refusal or len(refusal) > 20_000):
                        tally.fail(f"{name} {number}: not a line: {refusal[:300]!r}")
                tally.tried += 1
            shutil.rmtree(place)


def outcome(kind: Kind, path: Path, seconds: float = SECONDS) -> str | None:
    """Return why a file is refused; None where it is read."""
    try:
        with within(seconds):
            kind.read(path)
    except AmityError as error:
        return str(error)
    return None


def kinds(folder: Path) -> dict[str, Kind]:
    """Return a whole file of each kind, and who reads it."""
    return {**tables_and_arrays(), **images_and_sets(), **between_organisations(folder), **messages()}


def silos(path: Path) -> object:
    """Read a folder of silos, and make them ready as a run does."""
    return prepare(Run("separate", model="mlr", rounds=1), silos_of(Run("separate", data=f"folder:{path.parent}")))


def tables_and_arrays() -> dict[str, Kind]:
    """Files that silos bring, and those that runs take."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(20, 3)).astype(np.float32), np.arange(20) % 2
    rows = "".join(f"{a:.3f},{b:.3f},{'uvw'[at % 3]},{'ill' if a > 0 else 'well'}\n" for at, (a, b, _) in enumerate(x))
    text = ("a,b,ward,label\n" + rows).encode()
    german = ("a;b;ward;label\n" + rows.replace(",", ";").replace(".", ",")).encode("utf-16")
    arrays, halves, weights, parquet = io.BytesIO(), io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.savez(arrays, x=x, y=y)
    np.savez_compressed(halves, x_train=x, y_train=y.astype(str), x_test=x, y_test=y.astype(str))
    np.save(weights, x)
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": x[:, 0], "b": list("uvwx" * 5), "label": y}), parquet)

    def start(path: Path) -> object:
        return prepare(Run("fedavg", model="mlr", clients=2, per_silo=10, data="synthetic", init_from=str(path)), known)

    known = silos_of(Run("fedavg", data="synthetic", setting="iid", clients=2))
    model = prepare(Run("fedavg", model="mlr", per_silo=10), known).plan.task
    first = Path("first.safetensors")
    save_file(model.export_state(model.init(torch.Generator())), first)
    content = first.read_bytes()
    first.unlink()
    return {
        "csv": Kind(text, silos, "a.csv"),
        "csv in UTF-16, semicolons": Kind(german, silos, "a.csv"),
        "npz of silos": Kind(arrays.getvalue(), silos, "a.npz"),
        "npz with a test part": Kind(halves.getvalue(), silos, "a.npz"),
        "npz by another name": Kind(arrays.getvalue(), _arrays, "a.npy"),
        "parquet": Kind(parquet.getvalue(), silos, "a.parquet"),
        "safetensors of first weights": Kind(content, start, "first.safetensors"),
        "options of a run (TOML)": Kind(
            b'method = "fedamp"\nrounds = 3\nlr = 0.1\nsetting = "dirichlet:alpha=0.5"\n[set]\nsigma = 5.0\n', _options
        ),
    }


def _arrays(path: Path) -> object:
    """Read an npz file that has another name."""
    npz.weigh(path, MemoryBudget())
    return npz.parts(path)


def _options(path: Path) -> object:
    found = read_config(path)
    return Run(
        **{**{k: v for k, v in found.items() if k not in ("set", "seeds", "methods")}, "settings": found.get("set", {})}
    )


def images_and_sets() -> dict[str, Kind]:
    """Pictures, and data sets as they are published."""
    from PIL import Image

    draw = np.random.default_rng(0)
    found: dict[str, Kind] = {}
    for kind in ("png", "jpeg"):
        out = io.BytesIO()
        Image.fromarray(draw.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(out, kind)
        found[kind] = Kind(out.getvalue(), _pictures, f"ill/1.{kind}")
    raw = bytes((0, 0, 8, 3)) + np.array([5, 4, 4], ">u4").tobytes() + bytes(range(80))
    labels = bytes((0, 0, 8, 1)) + np.array([5], ">u4").tobytes() + bytes(5)
    zipped, tarred = io.BytesIO(), io.BytesIO()
    names = ("a-images", "a-labels", "b-images", "b-labels")
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(f"raw/{name}", raw if "images" in name else labels)
    with tarfile.open(fileobj=tarred, mode="w:gz") as tar:
        for name in ("train.bin", "test.bin"):
            info = tarfile.TarInfo(f"cifar/{name}")
            info.size = 3074 * 2
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    import gzip

    return {
        **found,
        "idx": Kind(raw, lambda path: idx.read(path, 3)),
        "idx in gzip": Kind(gzip.compress(raw), lambda path: idx.read(path, 3)),
        "idx in a zip file": Kind(zipped.getvalue(), lambda path: idx.zipped(path, names)),
        "cifar in a tar file": Kind(tarred.getvalue(), lambda path: cifar.packed(path, ["train.bin", "test.bin"])),
    }


def _pictures(path: Path) -> object:
    """Read a silo of pictures, one of which is the file."""
    whole = path.with_name("2.png")
    other = path.parents[1] / "well"
    if not other.exists():
        from PIL import Image

        other.mkdir()
        for place in (whole, other / "1.png", other / "2.png"):
            Image.new("RGB", (8, 8)).save(place)
    return images.read(path.parents[1], sorted(path.parents[1].iterdir()), MemoryBudget())


def between_organisations(folder: Path) -> dict[str, Kind]:
    """Files of hubs, sites and runs between organisations."""
    world = World(folder / "world").folder
    call(world, "data", "schema", "folder:clinics", "--out", "schema.toml")
    contract = contract_of_file(world / "RUN.toml", "trial", ["north"])
    own = signed.to_json(signed.sign(contract, *signing_key(world / "hub"), datetime.now(UTC)))
    approve(world / "state", contract, "north", "me", datetime.now(UTC))
    (given,) = (world / "state" / "approvals").glob("*.json")
    log = audit.Audit(world / "audit" / "audit.jsonl", "north")
    for number in range(5):
        log.add("received Train", run="first", round=number)
    stored = StoredServer(world / "stored", "first")
    state = {"params": torch.arange(4.0)}
    stored.save(_round(Progress(1, state, {0: Settled(1, "accepted", ("ab",))})), 1)
    saved = world / "stored" / "current"

    def stored_round(name: str) -> Callable[[Path], object]:
        def read(path: Path) -> object:
            shutil.copytree(saved, path.parent / "run" / "current", dirs_exist_ok=True)
            shutil.copy(path, path.parent / "run" / "current" / name)
            return StoredServer(path.parent / "run", "first").load()

        return read

    def site(path: Path) -> object:
        return load_site(path.parent)

    def approvals(path: Path) -> object:
        (path.parent / "approvals").mkdir(exist_ok=True)
        shutil.copy(path, path.parent / "approvals" / given.name)
        (path.parent / "approvals" / given.name).chmod(0o600)
        return read_approvals(path.parent, "north")

    def text(path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InputError("not text") from None

    readers: Mapping[str, tuple[Path, Callable[[Path], object]]] = {
        "consortium.toml": (world / "consortium.toml", read_consortium),
        "silo.toml": (world / "site" / "silo.toml", site),
        "RUN.toml": (world / "RUN.toml", lambda path: contract_of_file(path, "trial", ["north"])),
        "schema.toml": (world / "schema.toml", read_schema),
        "request of a silo": (world / "north.request", read_request),
        "admission of a silo": (world / "north.admission", read_admission),
        "approval": (given, approvals),
        "audit log": (log.path, lambda path: (audit.verify(path), audit.entries(path))),
        "round.json of a server": (saved / "round.json", stored_round("round.json")),
        "state of a server": (saved / "state.safetensors", stored_round("state.safetensors")),
    }
    found = {
        name: Kind(file.read_bytes(), read, "silo.toml" if name == "silo.toml" else "file")
        for name, (file, read) in readers.items()
    }
    found["contract.json"] = Kind(own.encode(), lambda path: signed.any_from_json(text(path)))
    return found


def _round(progress: Progress) -> Round:
    empty: dict[int, Any] = {}
    return Round(1, None, [0], empty, {0: 1}, 16, 16, 0, {}, None, progress, [])


def messages() -> dict[str, Kind]:
    """Messages, as they cross the wire."""
    state = {"params": torch.arange(6.0), "counts": torch.tensor([3])}
    several: dict[str, Message | Answer] = {
        "message Train": Train("r", 1, 0, state),
        "message Upload": Upload("r", 1, 0, state, 0.5),
        "message Measured": Measured("r", 1, 0, 5, 0.5, 1.0, {"auroc": 0.5}),
        "message Commit": Commit("r", 1, 0, "accepted"),
        "message Standing": Standing("r", 1, 0, None, "abc"),
    }
    return {name: Kind(encode(one), lambda path: decode(path.read_bytes())) for name, one in several.items()}
