"""A kit on disk: the folders startup/, local/ and transfer/ that FLARE calls a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from amity.engines.flare.kits.files import write, write_json
from amity.engines.flare.kits.resources import Table
from amity.federation.safe_files import folder

ROOT_CERTIFICATE = "rootCA.pem"

Startup = Mapping[str, bytes | str | Table]


def write_kit(path: Path, startup: Startup, local: Mapping[str, Table]) -> None:
    """Write a kit: texts as they are, tables as JSON."""
    for part in ("startup", "local", "transfer"):
        folder(path / part)
    for name, content in startup.items():
        if isinstance(content, dict):
            write_json(path / "startup" / name, content)
        else:
            write(path / "startup" / name, content)
    for name, table in local.items():
        write_json(path / "local" / name, table)
