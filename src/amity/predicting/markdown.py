"""Words of others in a page of Markdown: names of silos, classes and columns say what they say, and mark up nothing."""

from __future__ import annotations

import re

from amity.logs import visible

_MARKS = re.compile(r"[\\`*\[\]<>|~&#]|(?<![^\W_])_|_(?![^\W_])")  # an underscore inside a word is one anyway


def plain(text: str) -> str:
    """Return a text in one line, its marks escaped.

    >>> plain("ward_7 <b>*")
    'ward_7 \\\\<b\\\\>\\\\*'
    """
    return _MARKS.sub(lambda mark: "\\" + mark[0], visible(" ".join(text.split())))


def code(text: str) -> str:
    """Return a text in one line as code, whatever backquotes are in it.

    >>> code("a`b")
    '``a`b``'
    """
    text = visible(" ".join(text.split()))
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    room = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{room}{text}{room}{fence}"
