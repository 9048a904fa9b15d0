"""Views of runs that are watched, made by hand for tests of the live page."""

from __future__ import annotations

from report.views import EVIL, MADE, a_view, names, score

from amity.report.contents import EventView, LiveRun, LiveSilo, LiveView, View


def live_silo(name: str, place: int, round: int) -> LiveSilo:
    states = ("uploaded", "training", "absent", "connected", "refused")
    return {
        "name": name,
        "state": states[place % 5],
        "words": "not finite" if place % 5 == 4 else "no sign of life" if place % 5 == 2 else "",
        "since": MADE - 40,
        "seen": MADE - (200 if place % 5 == 2 else 5),
        "health": "red" if place % 5 == 2 else "orange" if place % 5 == 3 else "green",
        "round": round,
        "recent": [score("fedamp", number, 5, place) for number in range(1, round + 1)],
    }


def a_live_view(round: int = 2, rounds: int = 5, silos: int = 5) -> View:
    """Two runs that are watched: one after so many rounds, one whose process is gone."""
    view = a_view(silos, round, ("fedamp",))
    for found in view["runs"]:
        found["finished"], found["asked"] = False, rounds
    known = names(silos)
    feed: list[EventView] = [
        {
            "time": MADE,
            "round": round,
            "silo": name,
            "level": "good",
            "words": f"{name}: round {round} uploaded, 2.3 MB",
        }
        for name in known[:3]
    ]
    going: LiveRun = {
        "run": 0,
        "name": "fedamp",
        "phase": "running",
        "words": f"round {round} of {rounds}: 4 of 5 returned",
        "round": round,
        "rounds": rounds,
        "begun": MADE - 90,
        "left": 75.0,
        "written": MADE,
        "silos": [live_silo(name, place, round) for place, name in enumerate(known)],
        "log": [f"round {round} begins", f"{EVIL} uploaded"],
    }
    dead: LiveRun = {**going, "run": -1, "name": "apple", "phase": "dead", "words": "no sign for 5 min", "silos": []}
    live: LiveView = {"now": MADE, "runs": [going, dead], "feed": feed}
    view["live"] = live
    view["title"] = "fedamp and apple on digits"
    return view
