"""A real federation on loopback, a process of which is killed with -9 in every round (`benchmarks/endurance.py`).

Keys, a server and silos as processes of their own, mutual TLS. In the end every personal model must equal the
simulator's, every round must be on record once, no silo may have trained a round twice, and no process may be left.
"""

from __future__ import annotations

from pathlib import Path

from amity.config.run import Run
from benchmarks.endurance import KILLS, endure
from benchmarks.soak.tally import Tally

SILOS = 3
BLOWS, QUICK = 21, 2


def soak(tally: Tally, folder: Path) -> None:
    """Strike one federation after the other until there were enough kills."""
    wanted = QUICK if tally.quick else BLOWS
    number = 0
    while tally.tried < wanted and number < 4:
        rounds = wanted - tally.tried + 2  # some blows find nothing to kill
        run = Run("scaffold", data="digits", clients=SILOS, rounds=rounds, epochs=300, engine="loop")
        found = endure(folder / str(number), run, KILLS, tally.seed + number, rounds - 1)
        number += 1
        kills = [words for words in found.struck if words.startswith("kill -9")]
        tally.tried += len(kills)
        for words in kills:
            what = words.removeprefix("kill -9 of ").partition(", started")[0]
            who = "the server" if "server" in what else "a silo"
            tally.add(f"killed: {who}'s {what.split(chr(39) + 's ')[-1]}" if "'s " in what else f"killed: all of {who}")
        tally.add("models that equal the simulator's bit for bit", found.equal)
        tally.add("jobs handed in", found.jobs)
        if not found.good(SILOS):
            tally.fail(f"a federation with {len(kills)} kills: {found}")
