"""Keeping a contract's word at a silo: an answer that holds more than was announced is not sent.

The coordinator writes into the contract what leaves a silo, and policies and people decide by it. So the silo itself
looks at every answer, whatever its method makes of it.
"""

from __future__ import annotations

from torch import Tensor

from amity.federation.messages import Answer, Measured, Upload
from amity.federation.run_contract import RunContract, Wire
from amity.metric import main_metric

_SINGLE, _HALF = 4, 2  # bytes of a float as it is computed with, and on a narrow wire


def bytes_on_wire(count: int, width: int, floating: bool, wire: Wire) -> int:
    """Return what so many numbers of this width take when they are sent: see narrowing.py."""
    return count * (_HALF if floating and width == _SINGLE and wire != "float32" else width)


def unannounced(contract: RunContract, answer: Answer) -> str | None:
    """Return what an answer holds beyond its contract; None where it holds nothing."""
    if isinstance(answer, Upload):
        sizes = {key: _size(value, contract.wire) for key, value in answer.values.items()}
        return _beyond(contract, "tensor", sizes)
    if isinstance(answer, Measured):
        main = main_metric(contract.options.metric, contract.data.classes).key
        numbers: dict[str, float | None] = {main: answer.main, "loss": answer.loss, **answer.metrics}
        numbers |= {"val": answer.val, "train_loss": answer.train_loss}
        return _beyond(contract, "metric", {name: 0 for name, value in numbers.items() if value is not None})
    return None


def _size(value: Tensor, wire: Wire) -> int:
    return bytes_on_wire(value.numel(), value.element_size(), value.is_floating_point(), wire)


def _beyond(contract: RunContract, kind: str, sizes: dict[str, int]) -> str | None:
    announced = {leaving.name: leaving.bytes for leaving in contract.leaves if leaving.kind == kind}
    for name, size in sizes.items():
        if name not in announced and (size or kind == "metric"):
            return f"the contract of run {contract.name!r} announces no {kind} {name!r:.60}: nothing was sent"
        if size > announced.get(name, 0):
            most = f"{announced[name]:,} bytes of {name!r:.60}, there are {size:,}"
            return f"the contract of run {contract.name!r} announces {most}: nothing was sent"
    return None
