"""A server that runs is told at once who is no longer a member, or is one again."""

from __future__ import annotations

import contextlib
import io
import logging
from pathlib import Path

from amity.engines.flare.kits.lock import is_held
from amity.engines.flare.kits.places import admin_kit, admin_user, check_hub

_log = logging.getLogger("amity.federation")


def tell_server(hub: Path, name: str, *, removed: bool) -> bool:
    """Have the running server refuse a silo, or accept it again; False if it could not be told.

    A server that does not run reads the list when it starts.
    """
    if not is_held(check_hub(hub) / "server"):
        return True
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    try:
        with contextlib.redirect_stdout(io.StringIO()):  # FLARE says that it is connecting
            session = new_secure_session(admin_user(hub), str(admin_kit(hub)), timeout=10)
            try:
                (session.disable_client if removed else session.enable_client)(name)
            finally:
                session.close()
    except Exception as error:  # of FLARE's many kinds: whatever it was, the list on disk holds
        _log.warning("the running server could not be told about %s: %s", name, error)
        return False
    return True
