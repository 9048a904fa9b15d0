"""From when until when a certificate is valid: told early enough to renew it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from amity.checks.findings import Account

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

SOON = timedelta(days=30)


def check_dates(account: Account, check: str, certificate: Certificate, remedy: str, words: str = "") -> None:
    """Note whether a certificate is valid now, and for how long; `words` say first whose it is."""
    check_span(account, check, certificate.not_valid_before_utc, certificate.not_valid_after_utc, remedy, words)


def check_span(account: Account, check: str, begins: datetime, ends: datetime, remedy: str, words: str = "") -> None:
    """Note whether now is within a span of time, and how near its end."""
    now = datetime.now(UTC)
    before = f"{words}, " if words else ""
    if now < begins:
        found = f"{before}valid only from {_minute(begins)}, and this machine's clock says {_minute(now)}"
        account.failed(check, found, "set this machine's clock, by NTP")
    elif now > ends:
        account.failed(check, f"{before}expired on {_minute(ends)}", remedy)
    elif ends - now < SOON:
        account.warned(check, f"{before}expires on {_minute(ends)}, {days_until(ends)}", remedy)
    else:
        account.passed(check, f"{before}valid until {ends:%Y-%m-%d}")


def days_until(ends: datetime) -> str:
    """Return how far a date is away."""
    days = (ends - datetime.now(UTC)).days
    return "within a day" if days < 1 else f"in {days} day{'s' * (days != 1)}"


def _minute(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
