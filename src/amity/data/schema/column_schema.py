"""One column of a schema: what it is, how it becomes features, and the form in which files hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from amity.data.schema.dates import Order

Kind = Literal["number", "yes/no", "category", "date", "id", "constant", "empty", "text", "unclear"]
DatePart = Literal["days", "month", "weekday"]

USED: tuple[Kind, ...] = ("number", "yes/no", "category", "date")
"""Kinds that become features; the others are left out."""

OTHER = "other"


class ColumnJson(TypedDict):
    """One column, as files hold it. What a kind does not need is not there."""

    name: str
    kind: Kind
    centre: NotRequired[float]
    scale: NotRequired[float]
    fill: NotRequired[float]
    missing: NotRequired[bool]
    categories: NotRequired[list[str]]
    other: NotRequired[bool]
    order: NotRequired[Order]
    parts: NotRequired[list[DatePart]]
    marks: NotRequired[list[str]]
    why: NotRequired[str]


@dataclass(frozen=True)
class ColumnSchema:
    """One column: what it is, and how it is coded."""

    name: str
    kind: Kind
    centre: float = 0.0
    scale: float = 1.0
    fill: float = 0.0  # the number that stands for a missing one, in the column's own unit
    missing: bool = False  # a feature says where values were missing
    categories: tuple[str, ...] = ()
    other: bool = False  # a feature stands for all other categories; without it they are none of the known ones
    order: Order = "ymd"
    parts: tuple[DatePart, ...] = ("days",)
    marks: tuple[str, ...] = ()  # words that mean a missing value, beside the usual ones
    why: str = ""  # it is left out

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features, in their order."""
        own: tuple[str, ...] = ()
        if self.kind in ("number", "yes/no"):
            own = (self.name,)
        elif self.kind == "category":
            own = tuple(f"{self.name}={one}" for one in (*self.categories, *([OTHER] if self.other else [])))
        elif self.kind == "date":
            own = tuple(f"{self.name} {part}" for part in self.parts)
        return (*own, f"{self.name} missing") if own and self.missing else own

    def json(self) -> ColumnJson:
        """Return it as files hold it."""
        keys: dict[Kind, tuple[str, ...]] = {
            "number": ("centre", "scale", "fill", "missing"),
            "yes/no": ("fill", "missing"),
            "category": ("categories", "other", "missing"),
            "date": ("order", "parts", "centre", "scale", "fill", "missing"),
        }
        found: dict[str, Any] = {"name": self.name, "kind": self.kind}
        for key in keys.get(self.kind, ("why",)):
            value = getattr(self, key)
            found[key] = list(value) if isinstance(value, tuple) else value
        if self.marks:
            found["marks"] = list(self.marks)
        return found  # type: ignore[return-value]
