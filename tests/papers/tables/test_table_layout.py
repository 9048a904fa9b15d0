"""Tables as text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amity.papers import tables


@given(st.lists(st.lists(st.text("ab|c ", max_size=5), min_size=2, max_size=2), max_size=4))
def test_columns_of_markdown_line_up(body: list[list[str]]) -> None:
    lines = tables.markdown(["one", "two"], body).splitlines()
    assert len(lines) == 2 + len(body) and len({len(line) for line in lines}) == 1
