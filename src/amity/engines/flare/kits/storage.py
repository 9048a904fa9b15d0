"""FLARE's job store, inside the kit."""

from __future__ import annotations

import os

from nvflare.app_common.storages.filesystem_storage import FilesystemStorage


class KitStorage(FilesystemStorage):  # type: ignore[misc]
    """Objects in the folder that the process runs in, which for FLARE's server is its kit.

    FLARE's own wants an absolute path, with which a hub could not be moved; its template names the temp folder.
    """

    def __init__(self) -> None:
        super().__init__(root_dir=os.getcwd())
