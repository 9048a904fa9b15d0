"""Keys, certificates and kits of a consortium: who is a member, and how their FLARE processes are started.

    HUB/   consortium.toml  ca/ root key and certificate  server/ and admin/ kits  members/ who was admitted  runs/
           presence.json who is heard of
    SITE/  silo.toml  key.pem  NAME.request  kit/  session.json what the service last heard

A silo makes its own key, which never leaves it, and sends a request (`request.py`); the coordinator answers with an
admission (`admission.py`); the silo makes its kit from it (`site.py`). No private key travels, and adding a silo
changes no other kit.
"""

from amity.engines.flare.kits.dates import expiries
from amity.engines.flare.kits.members import Member, members
from amity.engines.flare.kits.places import (
    admin_kit,
    admin_user,
    root_certificate,
    server_command,
    signing_key,
    silo_command,
    silo_name,
)
from amity.engines.flare.kits.systemd import systemd_unit

__all__ = [
    "Member",
    "admin_kit",
    "admin_user",
    "expiries",
    "members",
    "root_certificate",
    "server_command",
    "signing_key",
    "silo_command",
    "silo_name",
    "systemd_unit",
]
