"""The extra that federations need."""

from __future__ import annotations

import importlib.util

from amity.errors import InputError


def require_extra() -> None:
    """Refuse a command that needs the extra `federation` where it is not installed."""
    if any(importlib.util.find_spec(package) is None for package in ("nvflare", "cryptography")):
        raise InputError("federations need the extra federation, it is not installed: pip install 'amity[federation]'")
