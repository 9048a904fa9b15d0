"""What the server itself says to a silo that asks: its clock, its version, and whether the silo's kit runs elsewhere.

Run by child.py, for it loads FLARE.
"""

from __future__ import annotations

from pathlib import Path

from amity.checks import machine
from amity.checks.findings import Account
from amity.checks.silo import SAID_BY_SERVER
from amity.engines.flare.hello import Heard, ask_server
from amity.engines.flare.kits.lock import is_held
from amity.errors import LostWorker
from amity.federation.presence import OVERLAP, Greeting, Service
from amity.site.session import Session, read_session

NEAR = 5.0
"""Seconds by which two clocks may differ without a word."""

FAR = 3600.0
"""Seconds from which on certificates may be refused."""

NOW = 15.0
"""Seconds since its last heartbeat within which a service surely runs: there is one every four."""

_NTP = "see that NTP keeps this machine's clock, or ask the coordinator about the server's"


def check_hello(account: Account, folder: Path) -> None:
    """Ask the server, and note what it says."""
    try:
        heard = ask_server(folder)
    except LostWorker as error:
        account.warned("clock", f"not known: {error}", "try again; if it stays so, ask the coordinator")
        for check in SAID_BY_SERVER[1:]:
            account.skipped(check, "the server gives no answer")
        return
    tell(account, heard, read_session(folder), is_held(folder / "kit"))


def tell(account: Account, heard: Heard, own: Session | None, runs_here: bool) -> None:
    """Note what the server has said. `own`: the last session of the service in this folder."""
    if heard.greeting is None:
        account.warned("clock", "the server does not tell its time: its Amity is too old", "upgrade one of them")
        for check in SAID_BY_SERVER[1:]:
            account.skipped(check, "the server's Amity is too old to tell")
        return
    _tell_clock(account, heard.skew, heard.within)
    _tell_version(account, heard.greeting.amity)
    if heard.greeting.removed:
        account.failed("membership", "the server says that this silo is no member any more", "ask the coordinator why")
    else:
        account.passed("membership", "the server knows this silo as a member")
    _tell_elsewhere(account, elsewhere(heard.greeting, own, runs_here), heard.greeting, runs_here)


def _tell_clock(account: Account, skew: float, within: float) -> None:
    off = f"{abs(skew):,.1f} s {'behind' if skew > 0 else 'ahead of'} the server's (to within {within:.1f} s)"
    if abs(skew) <= NEAR + within:
        account.passed("clock", f"this machine's clock is {off}")
    elif abs(skew) < FAR:
        account.warned("clock", f"this machine's clock is {off}", _NTP)
    else:
        account.failed("clock", f"this machine's clock is {off}: certificates may be refused", _NTP)


def _tell_version(account: Account, server: str) -> None:
    here = machine.installed("amity")
    if machine.minor(server) != machine.minor(here):
        found = f"silos need the coordinator's version of Amity up to its second number, here is {here}, there {server}"
        account.failed("server's version", found, "upgrade whichever is behind")
    else:
        account.passed("server's version", f"Amity {server}, here is {here}")


def elsewhere(greeting: Greeting, own: Session | None, runs_here: bool) -> list[Service]:
    """Return the services of this silo that run in another place.

    The last one that ran here may still be heard of for a while; so may one that was ended before ours began.
    """
    mark = None if own is None else own.mark
    others = [one for one in greeting.services if one.mark != mark]
    mine = next((one for one in greeting.services if one.mark == mark), None)
    if runs_here and mine is not None:
        return [one for one in others if one.heard - mine.since > OVERLAP]
    return [one for one in others if greeting.time - one.heard <= NOW]


def _tell_elsewhere(account: Account, others: list[Service], greeting: Greeting, runs_here: bool) -> None:
    if not others:
        account.passed("elsewhere", "the server hears of no other service of this silo")
        return
    since = (greeting.time - min(one.since for one in others)) / 60
    found = f"this silo's kit runs in another place, heard of by the server for {since:.0f} min"
    if runs_here:
        remedy = "stop one of the two: each takes the name from the other. If nobody here knows of it, tell the "
        account.failed("elsewhere", found, remedy + "coordinator at once: the key may be stolen")
    else:
        remedy = "do not start it here as well; if nobody here knows of the other, tell the coordinator at once"
        account.failed("elsewhere", found, remedy)
