"""The results of a run beside its summary: models, predictions and collaboration weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from amity.record.checkpoint import apart
from amity.record.contents import ModelFacts
from amity.record.directory import PREDICTIONS, WEIGHTS
from amity.record.files import Array, replace, replacing, save_arrays, to_json
from amity.record.sharing import make_folder


def save_models(folder: Path, models: Iterable[tuple[str, Mapping[str, Tensor]]], stems: Mapping[str, str]) -> None:
    """Write models (silo and state dict). `stems`: each silo's file name without its ending."""
    make_folder(folder)
    for silo, state in models:
        with replacing(folder / f"{stems[silo]}.safetensors") as temporary:
            save_file(apart(state), temporary)


def save_model_facts(folder: Path, facts: Mapping[str, ModelFacts], stems: Mapping[str, str]) -> None:
    """Write what each silo's model takes and gives."""
    for silo, known in facts.items():
        replace(folder / f"{stems[silo]}.json", to_json(known, indent=1))


def save_predictions(
    path: Path,
    stems: Mapping[str, str],
    delivered: Sequence[Tensor],
    last: Sequence[Tensor],
    outcomes: Mapping[str, Mapping[str, Array]],
) -> None:
    """Write each silo's predictions: `Score.each` at the delivered round and at the last one.

    `outcomes`: by silo, arrays that say more about the delivered model (`amity.predicting.outcomes`).
    """
    make_folder(path / PREDICTIONS)
    pairs = zip(stems.items(), delivered, last, strict=bool(last))  # none: no round was evaluated
    for (silo, stem), given, latest in pairs:
        arrays = {"delivered": given.numpy(), "last": latest.numpy(), **outcomes.get(silo, {})}
        save_arrays(path / PREDICTIONS / f"{stem}.npz", arrays)


def save_weights(path: Path, weights: Mapping[int, Array]) -> None:
    """Write collaboration weights by round, where there are any."""
    if weights:
        save_arrays(path / WEIGHTS, {f"round_{round:04d}": matrix for round, matrix in weights.items()})
