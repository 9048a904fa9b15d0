"""The coordinator's own session with the running server: who is connected. Run by child.py, for it loads FLARE."""

from __future__ import annotations

from pathlib import Path

from amity.checks.findings import Account
from amity.engines.flare.jobs import Jobs
from amity.engines.flare.kits.members import members
from amity.errors import LostWorker
from amity.hub.presence import TWICE, twice

ASK = "see the server's log in HUB/server/log.txt, and restart the server if it hangs"


def check_session(account: Account, hub: Path) -> None:
    """Note whether the server answers the coordinator, and which silos it hears of."""
    with Jobs(hub) as jobs:
        try:
            there = jobs.connected()
        except LostWorker as error:
            account.failed("session", str(error), ASK)
            return
    account.passed("session", "the server answers the coordinator's commands")
    known = [one.name for one in members(hub) if one.removed is None]
    missing = [name for name in known if name not in there]
    words = f"connected: {', '.join(sorted(there)) or 'nobody'}"
    if strangers := sorted(there - set(known)):
        remedy = "restart the server, which then reads the list of members anew"
        account.warned("silos", f"{words}; no longer members: {', '.join(strangers)}", remedy)
    elif missing:
        remedy = "at these silos: amity federation check SITE, then amity federation silo SITE"
        account.warned("silos", f"{words}; missing: {', '.join(missing)}", remedy)
    else:
        account.passed("silos", words)
    for name in sorted(twice(hub)):
        found, _, remedy = TWICE.rpartition(": ")
        account.failed("silos", f"{name}: {found}", f"have its people {remedy}; if they know of one only, remove it")
