"""The results of a run beside its summary: models, predictions and collaboration weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from amity.record.checkpoint import apart
from amity.record.directory import PREDICTIONS, WEIGHTS
from amity.record.files import Array, replacing, save_arrays
from amity.record.sharing import make_folder


def save_models(folder: Path, models: Iterable[tuple[str, Mapping[str, Tensor]]], stems: Mapping[str, str]) -> None:
    """Write models (silo and state dict). `stems`: each silo's file name without its ending."""
    make_folder(folder)
    for silo, state in models:
        with replacing(folder / f"{stems[silo]}.safetensors") as temporary:
            save_file(apart(state), temporary)


def save_predictions(path: Path, stems: Iterable[str], delivered: Sequence[Tensor], last: Sequence[Tensor]) -> None:
    """Write each silo's predictions: `Score.each` at the delivered round and at the last one."""
    make_folder(path / PREDICTIONS)
    for stem, given, latest in zip(stems, delivered, last, strict=bool(last)):  # none: no round was evaluated
        arrays = {"delivered": given.numpy(), "last": latest.numpy()}
        save_arrays(path / PREDICTIONS / f"{stem}.npz", arrays)


def save_weights(path: Path, weights: Mapping[int, Array]) -> None:
    """Write collaboration weights by round, where there are any."""
    if weights:
        save_arrays(path / WEIGHTS, {f"round_{round:04d}": matrix for round, matrix in weights.items()})
