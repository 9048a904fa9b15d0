"""What a silo says of its model can be: numbers from elsewhere go into means, tables and the choice of a round.

A score comes from a silo, which may be broken or hostile. One that no model can have, such as an accuracy of 250 %, is
as good as none: the silo has no score in that round, it is said why, and nobody else notices. A score that is possible
and untrue cannot be told from a true one: docs/robust.md says what that may do.
"""

from __future__ import annotations

import math

from amity.federation.messages import Measured
from amity.metric import METRICS, Metric

MOST_EXAMPLES = 1 << 40
"""Examples that a silo may have: sums over silos stay far from where integers end."""

LARGEST = 1e100
"""Numbers without a unit are smaller than that: sums of their squares stay finite. Those of no model are larger."""

_EDGE = 1e-6  # by which rounding may carry a share over its end


def impossible(said: Measured, main: Metric) -> str | None:
    """Return why no model can have this score; None where one can. `main`: the metric of the main score.

    >>> impossible(Measured("run", 1, 0, 5, 250.0, 1.0, {}), METRICS["accuracy"])
    'its accuracy is not between 0 and 100'
    """
    if not 0 <= said.examples <= MOST_EXAMPLES:
        return f"its number of test examples is not between 0 and {MOST_EXAMPLES:,}"
    shares = [(main, said.main), (main, math.nan if said.val is None else said.val)]
    shares += [(METRICS[name], value) for name, value in said.metrics.items() if name in METRICS]
    for metric, value in shares:
        if (wrong := _outside(metric, value)) is not None:
            return f"its {metric.title} is not {wrong}"
    for title, loss in (("loss", said.loss), ("loss in training", said.train_loss)):
        if loss is not None and math.isfinite(loss) and abs(loss) > LARGEST:
            return f"its {title} is not below {LARGEST:g}"
    return None


def _outside(metric: Metric, value: float) -> str | None:
    """Return where a value of this metric has to be, if it is not there. NaN is undefined, or withheld."""
    if math.isnan(value) or value == metric.failed and metric.labels == "quantities":
        return None
    if metric.labels == "classes":
        return None if -_EDGE <= value <= 100 + _EDGE else "between 0 and 100"
    if metric.unit:
        return None if -LARGEST <= value <= 100 + _EDGE else f"between {-LARGEST:g} and 100"
    return None if 0 <= value <= LARGEST else f"between 0 and {LARGEST:g}"
