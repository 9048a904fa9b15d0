"""The systemd unit of a server or a silo, to be looked through and installed by the machine's administrator."""

from __future__ import annotations

import sys
from pathlib import Path

from amity.engines.flare.kits.places import ENVIRONMENT, Kind, check_hub, check_site

# TasksMax: a job of FLARE's has some 400 threads. ProtectSystem leaves data and state writable, which lie where
# silo.toml says. KillMode: the command ends its own children first, and whatever is left is ended with it.
_UNIT = """\
# Install as /etc/systemd/system/{unit}.service, then: systemctl enable --now {unit}
[Unit]
Description=Amity federation, {kind} in {folder}
Wants=network-online.target
After=network-online.target

[Service]
User={owner}
ExecStart="{python}" -m amity federation {kind} {folder}
{environment}
WorkingDirectory={folder}
UMask=0077
Restart=on-failure
RestartSec=10
KillMode=mixed
TimeoutStopSec=90
TasksMax=8192
LimitNOFILE=65536
LimitCORE=0
NoNewPrivileges=yes
PrivateTmp=yes
PrivateDevices={private_devices}
ProtectSystem=full
ProtectControlGroups=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictSUIDSGID=yes
LockPersonality=yes

[Install]
WantedBy=multi-user.target
"""


def systemd_unit(kind: Kind, folder: Path) -> str:
    """Return the text of a unit that keeps a server or a silo running."""
    place = check_hub(folder) if kind == "server" else check_site(folder)
    return _UNIT.format(
        kind=kind,
        unit=f"amity-{kind}-{place.name}",
        folder=_literal(str(place)),
        owner=place.owner(),
        python=_literal(sys.executable),
        environment="\n".join(f"Environment={key}={value}" for key, value in ENVIRONMENT.items()),
        private_devices="yes" if kind == "server" else "no",  # a silo may train on a graphics card
    )


def _literal(path: str) -> str:
    """Return a path that systemd takes as it stands: % begins a specifier there."""
    return path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
