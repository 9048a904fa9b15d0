"""Views made by hand for tests of the page: numbers that a reader can check by eye, and a name that tries to break out.

They are what `amity.report.contents` says, and come from no run: what is tested with them is the drawing.
"""

from __future__ import annotations

import base64
import math

import numpy as np
import numpy.typing as npt

from amity.report.contents import (
    VERSION,
    Alarm,
    CourseView,
    EventView,
    Judgement,
    MethodView,
    OverSeeds,
    RunView,
    SiloVerdict,
    SiloView,
    View,
    WeightsView,
    WorthView,
)

EVIL = "<img src=x onerror=alert(1)></script>"
NAMES = ["north", EVIL, "south hospital", "university hospital of a town with a long name", "=1+1"]
METHODS = ("fedamp", "apple", "fedavg", "separate")
TITLES = {
    "delivered": "Delivered %",
    "worst": "Worst %",
    "spread": "Spread",
    "last": "Last %",
    "best_on_test": "Best on test %",
    "seconds": "Sec",
    "bytes_up": "MB up",
    "bytes_down": "MB down",
}
MADE = 1_790_000_000.0
Floats = npt.NDArray[np.float64]


def names(count: int) -> list[str]:
    return [*NAMES, *(f"silo {place}" for place in range(len(NAMES), count))][:count]


def score(method: str, round: int, rounds: int, silo: int) -> float:
    """A curve that climbs to a height of its own for each method and silo."""
    height = {"fedamp": 88.0, "apple": 85.0, "fedavg": 80.0, "separate": 82.0}.get(method, 83.0)
    height += 6 * math.sin(silo * 1.7 + len(method)) + (3 if method == "separate" and silo == 2 else 0)
    return round_to(height - 40 * math.exp(-3 * round / rounds))


def round_to(value: float) -> float:
    return round(value, 4)


def course(method: str, silos: list[str], rounds: int) -> CourseView:
    numbers = list(range(1, rounds + 1))
    by_silo = [[score(method, number, rounds, silo) for silo in range(len(silos))] for number in numbers]
    dropped = [{silos[0]: "no answer in 60 s"} if number == 2 else {} for number in numbers]
    refused = [{silos[-1]: "upload refused: not finite"} if number == 3 else {} for number in numbers]
    return {
        "rounds": numbers,
        "mean": [round_to(sum(values) / len(values)) for values in by_silo],
        "worst": [min(values) for values in by_silo],
        "silos": [list(values) for values in by_silo],
        "loss": [round_to(2 * math.exp(-number / rounds)) for number in numbers],
        "test_loss": [None for _ in numbers],
        "bytes_up": [1_000_000 for _ in numbers],
        "bytes_down": [2_000_000 for _ in numbers],
        "seconds": [0.25 for _ in numbers],
        "collaborators": [None for _ in numbers],
        "took_part": [list(range(len(silos))) for _ in numbers],
        "dropped": dropped if method == "fedamp" else [{} for _ in numbers],
        "refused": refused if method == "fedamp" else [{} for _ in numbers],
    }


def packed(stack: Floats, rounds: list[int]) -> WeightsView:
    """Weights as two bytes each.  # stack [rounds, m, m]"""
    known = np.isfinite(stack)
    low, high = float(stack[known].min()), float(stack[known].max())
    span = (high - low) or 1.0
    codes = np.where(known, np.rint((np.where(known, stack, low) - low) / span * 65534), 65535).astype("<u2")
    silos = list(range(stack.shape[1]))
    text = base64.b64encode(codes.tobytes()).decode()
    return {
        "rounds": rounds,
        "low": low,
        "high": high,
        "codes": text,
        "given": silos,
        "clustered": [*silos[::2], *silos[1::2]],
    }


def attention(silos: int, rounds: int) -> Floats:
    """From uniform in round 1 to attention among silos of equal parity; the last silo was not asked in round 1."""
    even = np.full((silos, silos), 1 / silos)
    alike = np.equal.outer(np.arange(silos) % 2, np.arange(silos) % 2).astype(np.float64)
    alike += np.eye(silos)
    alike /= alike.sum(1, keepdims=True)
    stack = np.stack([even + (alike - even) * place / max(1, rounds - 1) for place in range(rounds)])
    stack[0, -1] = np.nan
    return stack


def alarm() -> Alarm:
    return {
        "level": "warning",
        "title": "a silo that nobody listens to",
        "words": f"Nobody takes a tenth of an equal share from {NAMES[2]}.",
        "silos": [NAMES[2]],
        "rounds": [3, 4, 5],
    }


def run(method: str, silos: list[str], rounds: int, stack: Floats | None, seed: int = 0) -> RunView:
    told = course(method, silos, rounds)
    event: EventView = {
        "time": MADE,
        "round": 2,
        "silo": silos[0],
        "level": "warning",
        "words": f"{silos[0]}: round 2, no answer in 60 s",
    }
    return {
        "name": method,
        "seed": seed,
        "folder": method,
        "finished": True,
        "asked": rounds,
        "delivered_round": rounds,
        "delivered": told["silos"][-1],
        "course": told,
        "weights": None if stack is None else packed(stack, told["rounds"]),
        "alarms": [alarm()] if method == "fedamp" else [],
        "config": f'method = "{method}"\nrounds = {rounds}\n',
        "facts": {"amity": "0.1.0", "torch": "2.9.1", "model": "mlp", "data sha256": "0123456789abcdef"},
        "command": f"amity run {method} --data digits --rounds {rounds} --seed {seed}",
        "events": [event],
    }


def over(value: float, deviation: float | None = None) -> OverSeeds:
    return {"mean": value, "deviation": deviation}


def method_view(name: str, found: RunView, place: int) -> MethodView:
    known = [value for value in found["delivered"] if value is not None]
    mean = sum(known) / len(known)
    numbers: dict[str, OverSeeds | None] = {
        "delivered": over(round_to(mean)),
        "worst": over(min(known)),
        "spread": over(3.25),
        "last": over(round_to(mean)),
        "best_on_test": over(round_to(mean)),
        "seconds": over(0.25 * found["asked"]),
        "bytes_up": over(1e6 * found["asked"]),
        "bytes_down": over(2e6 * found["asked"]),
    }
    return {
        "name": name,
        "method": name,
        "seeds": [found["seed"]],
        "numbers": numbers,
        "chosen_by": "last round",
        "metrics": {"auroc": over(90.0 + place), "balanced_accuracy": None},
        "cloud": None,
        "best": name == "fedamp",
        "level": None if name == "fedamp" else name == "apple",
        "p": "–" if name == "fedamp" else "p = 0.03",
        "reference": name == "separate",
        "runs": [place],
    }


def verdict(silo: str, alone: float, personal: float, wide: float) -> SiloVerdict:
    difference = round_to(personal - alone)
    low, high = round_to(difference - wide), round_to(difference + wide)
    judgement: Judgement = "gains" if low > 0 else "better alone" if high < 0 else "no clear difference"
    words = {"gains": f"gains {difference:.1f} points", "better alone": f"loses {-difference:.1f} points"}
    return {
        "silo": silo,
        "examples": 120,
        "alone": alone,
        "shared": round_to(alone - 2),
        "personal": personal,
        "difference": difference,
        "low": low,
        "high": high,
        "judgement": judgement,
        "words": words.get(judgement, judgement),
    }


def worth(method: RunView, alone: RunView, silos: list[str]) -> WorthView:
    pairs = zip(silos, alone["delivered"], method["delivered"], strict=True)
    told = [verdict(name, a, b, 2.5) for name, a, b in pairs if a is not None and b is not None]
    counts = {kind: sum(one["judgement"] == kind for one in told) for kind in ("gains", "better alone")}
    gain, lose = counts["gains"], counts["better alone"]
    differences = [one["difference"] for one in told if one["difference"] is not None]
    return {
        "method": method["name"],
        "alone": "separate",
        "shared": "fedavg",
        "silos": told,
        "gain": gain,
        "lose": lose,
        "level": len(told) - gain - lose,
        "unknown": 0,
        "mean": round_to(sum(differences) / len(differences)),
        "words": f"With {method['name']}, {gain} of {len(told)} silos gain by joining and {lose} do better alone.",
        "chance": "Chance alone would give about one such verdict in twenty silos.",
        "rule": "A verdict needs an interval of the difference that does not hold zero.",
    }


def a_view(silos: int = 5, rounds: int = 5, methods: tuple[str, ...] = METHODS) -> View:
    """A whole report: verdicts where `separate` is among the methods, weights of fedamp and apple."""
    known = names(silos)
    stack = attention(silos, rounds)
    stacks = {"fedamp": stack, "apple": -0.1 * np.eye(silos) + np.full((rounds, silos, silos), 1 / silos)}
    runs = [run(method, known, rounds, stacks.get(method)) for method in methods]
    rows = [method_view(method, found, place) for place, (method, found) in enumerate(zip(methods, runs, strict=True))]
    alone = next((found for found in runs if found["name"] == "separate"), None)
    joined = [found for found in runs if found["name"] not in ("separate", "fedavg")]
    held: list[SiloView] = [
        {"name": name, "group": place % 2, "train": 60 + place, "val": None, "test": 120, "held": [40, 20 + place, 0]}
        for place, name in enumerate(known)
    ]
    return {
        "version": VERSION,
        "amity": "0.1.0",
        "made": MADE,
        "title": f"{len(methods)} methods on digits" if len(methods) > 1 else methods[0],
        "score": {"key": "accuracy", "title": "accuracy", "unit": "%", "better": "higher"},
        "data": "digits",
        "setting": "practical",
        "model": "mlp",
        "classes": ["cat", "<b>dog</b>", "ox"],
        "label": None,
        "features": None,
        "silos": held,
        "notes": [f"class 0 ran out at {EVIL}"],
        "methods": rows,
        "table": TITLES,
        "why_no_best": "",
        "remarks": ["Delivered is the mean test accuracy of the models that are saved."],
        "worth": [] if alone is None else [worth(found, alone, known) for found in joined],
        "why_no_worth": "" if alone else "Run separate too: amity compare separate fedamp --data digits",
        "runs": runs,
        "live": None,
    }
