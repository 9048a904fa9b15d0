"""Whether joining was worth it for all silos together: how many gain, how many lose, and what chance would give.

Where joining does nothing, a silo is still told that it gains with a chance of at most `WRONG`, and that it is better
alone with the same chance. So chance gives some verdicts wherever there are many silos, and the number of gains is held
against the binomial distribution, the number of losses too. That is exact, and so right for few silos: among three
silos one gain proves nothing (p = 0.07), two do. Each of the two questions has half of the 5 %. Beside the counts,
Wilcoxon's test over the silos' differences asks whether joining moves silos as a whole, clear or not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from amity import statistics
from amity.worth.contents import Judgement
from amity.worth.paired import LEVEL

WRONG = (1 - LEVEL) / 2
"""The chance of a false verdict in either direction."""

CLEAR = 0.025
"""The level of either question, of gains and of losses: together they are asked at 5 %."""


class Counts(NamedTuple):
    """How many silos have each judgement."""

    gain: int
    lose: int
    level: int
    unknown: int

    @property
    def compared(self) -> int:
        """The silos of which something can be said."""
        return self.gain + self.lose + self.level


def counted(judgements: Sequence[Judgement]) -> Counts:
    """Count judgements."""
    found = Counter(judgements)
    return Counts(found["gains"], found["better alone"], found["no clear difference"], found["cannot be compared"])


def chance_of(found: int, silos: int) -> float:
    """Return the chance of so many false verdicts of one kind, or more, among so many silos."""
    return (
        math.fsum(math.comb(silos, k) * WRONG**k * (1 - WRONG) ** (silos - k) for k in range(found, silos + 1))
        if found
        else 1.0
    )


def answer(counts: Counts) -> str:
    """Return the answer in one sentence: "Joining was worth it for 7 of 20 silos; 2 are better alone; ..."."""
    m = counts.compared
    if not m:
        return "Whether joining was worth it cannot be said: no silo has both models' results on test examples."
    if m == 1 and not counts.unknown:
        only = ["Joining was worth it for the only silo", "The only silo is better alone"]
        return (only[0] if counts.gain else only[1] if counts.lose else _nobody(1)) + "."
    if counts.gain == m:
        first = f"Joining was worth it for all {m} silos"
    elif counts.lose == m:
        first = f"Joining was worth it for none of {m} silos: all of them are better alone"
    elif counts.level == m:
        first = _nobody(m)
    else:
        parts = [f"Joining was worth it for {counts.gain or 'none'} of {m} silos"]
        parts += [f"{counts.lose} {_are(counts.lose)} better alone"] if counts.lose else []
        parts += [f"for {counts.level} there is no clear difference"] if counts.level else []
        first = "; ".join(parts)
    rest = f"; {counts.unknown} {_silos(counts.unknown)} cannot be compared" if counts.unknown else ""
    return f"{first}{rest}."


def _nobody(silos: int) -> str:
    where = "the only silo" if silos == 1 else f"none of {silos} silos"
    shows = "shows no" if silos == 1 else "shows a"
    return f"{where[0].upper()}{where[1:]} {shows} clear difference between joining and training alone"


def beyond_chance(counts: Counts, differences: Sequence[float], unit: str = "points") -> str:
    """Return how many verdicts chance alone would give, and whether there are more.

    `differences`: of each silo, in this unit.
    """
    m = counts.compared
    if not m:
        return ""
    expected = m * WRONG
    about = f"about {expected:.0f}" if expected >= 1.5 else "about one" if expected >= 0.75 else "fewer than one"
    texts = [
        f"Where joining does nothing, chance alone would give {about} false gain{'s' if expected >= 1.5 else ''} among "
        f"{m} {_silos(m)}, and as many false losses"
    ]
    if WRONG**m >= CLEAR:
        texts.append("so few silos can show no more than that together: read each silo's own verdict")
    else:
        texts += [_held(n, what, m) for n, what in ((counts.gain, "gain"), (counts.lose, "loss")) if n]
    return "; ".join(texts) + "." + _as_a_whole(differences, unit)


def _held(found: int, what: str, silos: int) -> str:
    p = chance_of(found, silos)
    many = what if found == 1 else {"gain": "gains", "loss": "losses"}[what]
    is_are = "is" if found == 1 else "are"
    return f"{found} {many} {is_are} {'more' if p < CLEAR else 'not clearly more'} than that (p {_p(p)})"


def _as_a_whole(differences: Sequence[float], unit: str) -> str:
    known = [one for one in differences if math.isfinite(one)]
    if len(known) < 2:
        return ""
    mean = math.fsum(known) / len(known)
    test = statistics.wilcoxon(known, [0.0] * len(known))
    said = str(test) if not test.enough else f"p {_p(test.p)}"
    return f" Over all silos the mean difference is {mean:+.1f} {unit} (signed-rank test: {said})."


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"= {value:.4f}" if value < 0.1 else f"= {value:.2f}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _silos(count: int) -> str:
    return "silo" if count == 1 else "silos"
