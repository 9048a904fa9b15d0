"""Examples in docstrings become blocks of code on the site. Griffe calls this file (`extensions` in mkdocs.yml)."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)


class Examples(griffe.Extension):
    """Puts a fence around every example: its lines up to the next blank one."""

    def on_object(self, *, obj: griffe.Object, loader: griffe.GriffeLoader, **more: Any) -> None:
        """Fence the examples of one object's docstring."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", obj.docstring.value)
