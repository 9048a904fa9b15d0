"""Until when the certificates of a hub or a site are valid."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from amity.engines.flare.kits.files import read
from amity.engines.flare.kits.places import check_hub, check_site
from amity.errors import DamagedFile


def expiries(place: Path) -> dict[str, datetime]:
    """Return when each certificate of a hub (root, server, admin) or of a site (root, silo) ends, in UTC."""
    if (place / "ca").is_dir():
        hub = check_hub(place)
        startup = {kind: hub / kind / "startup" for kind in ("server", "admin")}
        files = {"server": startup["server"] / "server.crt", "admin": startup["admin"] / "client.crt"}
        return {what: _ends(file) for what, file in {"root": hub / "ca" / "root.pem", **files}.items()}
    startup_folder = check_site(place) / "kit" / "startup"
    return {"root": _ends(startup_folder / "rootCA.pem"), "silo": _ends(startup_folder / "client.crt")}


def _ends(file: Path) -> datetime:
    from amity.engines.flare.kits.certificates import load_certificate

    try:
        return load_certificate(read(file)).not_valid_after_utc
    except ValueError as error:
        raise DamagedFile(f"{file} holds no certificate ({error}): take it from a backup, or renew it") from error
