"""From when until when the certificates of a hub or a site are valid."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from amity.engines.flare.kits.files import read
from amity.engines.flare.kits.places import check_hub, check_site
from amity.errors import DamagedFile, InputError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


def expiries(place: Path) -> dict[str, datetime]:
    """Return when each certificate of a hub (root, server, admin) or of a site (root, silo) ends, in UTC."""
    return {what: one.not_valid_after_utc for what, one in _certificates(place).items()}


def check_dates(place: Path) -> None:
    """Refuse certificates that are not valid today: FLARE would try for ever to connect, and not say why."""
    now = datetime.now(UTC)
    for what, one in _certificates(place).items():
        begins, ends = one.not_valid_before_utc, one.not_valid_after_utc
        if now < begins:
            raise InputError(
                f"the certificate of {what} begins on {begins:%Y-%m-%d %H:%M} UTC, it is {now:%Y-%m-%d %H:%M}: "
                "set the clock"
            )
        if now > ends:
            raise InputError(f"the certificate of {what} has ended on {ends:%Y-%m-%d %H:%M} UTC: {_REMEDIES[what]}")


_REMEDIES = {
    "root": "make a new hub, and new kits for everybody",
    "server": "renew it with `amity federation renew server`",
    "admin": "renew it with `amity federation renew admin`",
    "silo": "ask the coordinator for `amity federation renew`, and join with the new admission",
}


def _certificates(place: Path) -> dict[str, Certificate]:
    if (place / "ca").is_dir():
        hub = check_hub(place)
        files = {"server": hub / "server" / "startup" / "server.crt", "admin": hub / "admin" / "startup" / "client.crt"}
        return {what: _load(file) for what, file in {"root": hub / "ca" / "root.pem", **files}.items()}
    startup = check_site(place) / "kit" / "startup"
    return {"root": _load(startup / "rootCA.pem"), "silo": _load(startup / "client.crt")}


def _load(file: Path) -> Certificate:
    from amity.engines.flare.kits.certificates import load_certificate

    try:
        return load_certificate(read(file))
    except ValueError as error:
        raise DamagedFile(f"{file} holds no certificate ({error}): take it from a backup, or renew it") from error
