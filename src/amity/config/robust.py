"""How a run protects itself against bad silos. No torch here."""

from __future__ import annotations

from typing import Literal

Robust = Literal["off", "norm", "median", "trimmed", "krum", "clip"]
"""off: uploads are checked for their form only. norm: those that moved much further than the median are refused too.
The others do that as well, and name what takes the place of the mean of models."""

MEANS: tuple[Robust, ...] = ("median", "trimmed", "krum", "clip")
"""Those for methods that average."""
