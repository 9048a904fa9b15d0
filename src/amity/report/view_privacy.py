"""What a run has spent under differential privacy, as a view has it."""

from __future__ import annotations

from amity.record import Record
from amity.report.contents import PrivacyView


def privacy_of(record: Record) -> PrivacyView | None:
    """Return what each silo has spent so far; None where a run has no differential privacy."""
    line = next((line for line in reversed(record.lines) if "epsilon" in line), None)
    if line is None:
        return None
    silos = line["epsilon"]
    return {"silos": silos, "words": _words(list(silos.values()), record.config.get("dp_delta", "auto"))}


def _words(epsilons: list[float], delta: float | str) -> str:
    """Return what has been promised, in two sentences."""
    told = "1 / (10 n) at a silo with n training examples" if delta == "auto" else f"{delta:g}"
    low, high = min(epsilons, default=0.0), max(epsilons, default=0.0)
    span = f"{high:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
    return (
        "Every gradient was clipped and made noisy: each training example is protected by differential privacy, with "
        f"epsilon {span} (Opacus' accountant; the table of silos has each one's) and delta {told}. Scores on test data "
        "are not covered."
    )
