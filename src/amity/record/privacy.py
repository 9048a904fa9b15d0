"""What a run has spent under differential privacy, from the lines of its record: every noisy gradient is in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amity.learn.accounting import ACCOUNTANT, Use, epsilon_of
from amity.record.contents import Line
from amity.record.privacy_contents import PrivacyFacts


def epsilons(lines: Iterable[Line]) -> dict[str, float]:
    """Return the epsilon of each silo that has trained, over all these rounds, those whose upload was lost too."""
    uses: dict[str, list[Use]] = {}
    deltas: dict[str, float] = {}
    for line in lines:
        for silo, spent in line.get("spent", {}).items():
            uses.setdefault(silo, []).append(Use(spent["noise"], spent["rate"], spent["steps"]))
            deltas[silo] = spent["delta"]
    return {silo: epsilon_of(together(found), deltas[silo]) for silo, found in uses.items()}


def together(uses: Iterable[Use]) -> list[Use]:
    """Return the same uses, those of one kind as one."""
    steps: dict[tuple[float, float], int] = {}
    for noise, rate, count in uses:
        steps[noise, rate] = steps.get((noise, rate), 0) + count
    return [Use(noise, rate, count) for (noise, rate), count in steps.items()]


def privacy_facts(lines: Sequence[Line], silos: Sequence[str]) -> PrivacyFacts:
    """Return what each silo has spent."""
    found = next((line["epsilon"] for line in reversed(lines) if "epsilon" in line), {})
    deltas = {silo: spent["delta"] for line in lines for silo, spent in line.get("spent", {}).items()}
    return {
        "accountant": ACCOUNTANT,
        "epsilon": [found.get(silo, 0.0) for silo in silos],
        "delta": [deltas.get(silo) for silo in silos],
    }
