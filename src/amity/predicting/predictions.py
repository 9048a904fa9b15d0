"""What a model says about examples, and how right it was where the truth is known."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from amity.contract import Scale
from amity.data.schema.labels import MISSING, is_number, place_of
from amity.errors import InputError
from amity.learn.metrics import usable
from amity.predicting.interval import Interval, wilson
from amity.predicting.model import restored
from amity.record.contents import ModelFacts

Numbers = npt.NDArray[np.float64]
Truth = tuple[str | None, ...] | tuple[float | None, ...]
"""A label for each example, None where there is none."""


FOR_NEW_ROWS = (
    "This counts only for rows that the model was not trained on; on rows from its own training it looks too good."
)
"""Said with every agreement. Which rows a model was trained on is not kept beside it: even as hashes they would tell
anybody who has the model, and somebody's row, whether that person was among them."""


class Agreement(NamedTuple):
    """How right a model was about examples whose labels are known, if it was not trained on them (`FOR_NEW_ROWS`)."""

    rows: int  # examples with a label
    accuracy: float | None = None  # in percent, of classes
    interval: Interval | None = None  # Wilson's, at 95 %, in percent
    r2: float | None = None  # in percent, of quantities; None where all labels are equal
    error: float | None = None  # the mean absolute error of quantities, in their own unit

    def __str__(self) -> str:
        rows = f"{self.rows} row{'s' * (self.rows != 1)} with a label"
        if self.interval is not None:
            low, high = self.interval
            return f"accuracy {self.accuracy:.1f} % on {rows} (95 % interval {low:.1f} to {high:.1f}, Wilson)"
        share = "R2 is undefined" if self.r2 is None else f"R2 {self.r2:.1f} %"
        return f"mean absolute error {self.error:.4g}, {share}, on {rows}"


class Predictions(NamedTuple):
    """What a model says about examples, in their order."""

    labels: tuple[str, ...] | None  # the classes; None: quantities
    values: tuple[str, ...] | tuple[float, ...]  # the likeliest class, or the quantity in the silo's own unit
    probabilities: Numbers | None  # [n, classes]
    truth: Truth | None = None  # where the examples came with labels
    kept: Mapping[str, Sequence[str]] = {}  # columns that were asked for, or the names of image files
    notes: tuple[str, ...] = ()  # what was left out, and the like

    @property
    def agreement(self) -> Agreement | None:
        """How right the model was; None where no example has a label."""
        known = [(said, true) for said, true in zip(self.values, self.truth or (), strict=False) if true is not None]
        if not known:
            return None
        if self.labels is not None:
            right = sum(said == true for said, true in known)
            low, high = wilson(right, len(known))
            return Agreement(len(known), 100 * right / len(known), Interval(100 * low, 100 * high))
        said, true = (np.array(side, dtype=np.float64) for side in zip(*known, strict=True))
        spread = float(((true - true.mean()) ** 2).sum())
        r2 = 100 * (1 - float(((said - true) ** 2).sum()) / spread) if spread else None
        return Agreement(len(known), r2=r2, error=float(np.abs(said - true).mean()))


def predictions_of(
    facts: ModelFacts,
    outputs: Tensor,
    written: Sequence[object] | None = None,
    kept: Mapping[str, Sequence[str]] | None = None,
    notes: Sequence[str] = (),
) -> Predictions:
    """Return a model's outputs as predictions. `written`: labels as the file has them, where it has some."""
    sound = usable(outputs)
    if not sound.all():
        raise InputError(
            f"the model of {facts['silo']} gives no number for row {int((~sound).nonzero()[0])}: look at that row, or "
            "at the run, if it fails for all"
        )
    truth, remarks = _truth(facts, written)
    told = (*notes, *remarks)
    if facts["labels"] is None:
        values = tuple(restored(outputs[:, 0], Scale(*facts["scale"])).tolist())
        return Predictions(None, values, None, truth, kept or {}, told)
    labels = tuple(facts["labels"])
    chosen = tuple(labels[place] for place in outputs.argmax(1).tolist())
    shares = outputs.double().softmax(1).numpy(force=True)
    return Predictions(labels, chosen, shares, truth, kept or {}, told)


def _truth(facts: ModelFacts, written: Sequence[object] | None) -> tuple[Truth | None, tuple[str, ...]]:
    """Return labels as the model spells them, and what there is to say about them."""
    if written is None:
        return None, ()
    if facts["labels"] is None:
        return tuple(_quantity(label) for label in written), ()
    places = {unicodedata.normalize("NFC", label): place for place, label in enumerate(facts["labels"])}
    counted = not any(map(is_number, places))
    found: list[str | None] = []
    strange: dict[str, None] = {}
    for label in written:
        if str(label).strip().lower() in MISSING:
            found.append(None)
            continue
        place = place_of(label, places, counted=counted)
        found.append(facts["labels"][place] if place >= 0 else str(label))
        if place < 0:
            strange[str(label)] = None
    if not strange:
        return tuple(found), ()
    shown = ", ".join(map(repr, list(strange)[:3])) + (", ..." if len(strange) > 3 else "")
    return tuple(found), (f"labels that the model does not know count as wrong: {shown}",)


def _quantity(label: object) -> float | None:
    try:
        value = float(str(label))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
