"""The documentation as a site: every public name is in it, every message that it explains exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import amity

ROOT = Path(__file__).parents[1]
API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
TROUBLE = (ROOT / "docs" / "trouble.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^### `(.*)`$", TROUBLE, re.MULTILINE)


@pytest.fixture(scope="module")
def source() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))


@pytest.mark.parametrize("name", [name for name in amity.__all__ if name not in ("Model", "State")])  # two plain dicts
def test_every_public_name_is_on_the_page(name: str) -> None:
    home = getattr(amity, name).__module__
    assert f"::: {home}.{name}\n" in API or f"::: {home}\n" in API


@pytest.mark.parametrize("message", MESSAGES)
def test_the_messages_that_are_explained_exist(message: str, source: str) -> None:
    parts = [part.strip() for part in message.split("…")]
    assert any(parts) and all(part in source for part in parts)


def test_many_messages_are_explained() -> None:
    assert len(MESSAGES) == len(set(MESSAGES)) > 20
