"""FLARE's process of a kit: `python -m amity.engines.flare.kits.process server HUB`, or `silo SITE`.

It is FLARE's own main program. Around it: what it writes is for its owner alone, and a kit that runs already is not
started again, for the server would give the second process the name and leave the first one without.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from amity.engines.flare.kits.places import check_hub, check_site, silo_name
from amity.errors import AmityError, InputError

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None  # type: ignore[assignment]


def flare_arguments(kind: str, folder: Path) -> tuple[str, list[str]]:
    """Return FLARE's module and its arguments."""
    if kind == "server":
        kit, module, file, who = folder / "server", "server.server_train", "fed_server.json", []
    else:
        name = silo_name(folder)
        kit, module, file, who = folder / "kit", "client.client_train", "fed_client.json", [f"uid={name}"]
    # An organisation's name decides nothing in our policies, and FLARE would split it at its spaces.
    settings = ["secure_train=true", *who, "org=amity", "config_folder=config"]
    return f"nvflare.private.fed.app.{module}", ["-m", str(kit), "-s", file, "--set", *settings]


def lock(kit: Path) -> int | None:
    """Hold a kit until this process ends."""
    if fcntl is None:
        return None
    handle = os.open(kit, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise InputError(f"{kit} runs already in another process: stop that one first") from None
    except OSError:
        pass  # a file system that has no locks
    return handle


def main(kind: str, folder: Path) -> None:
    """Become FLARE's process."""
    place = check_hub(folder) if kind == "server" else check_site(folder)
    module, arguments = flare_arguments(kind, place)
    os.umask(0o077)
    handle = lock(place / ("server" if kind == "server" else "kit"))
    try:
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        if handle is not None:
            os.close(handle)


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]))
    except AmityError as error:
        print(f"amity: {error}", file=sys.stderr)
        sys.exit(2)
