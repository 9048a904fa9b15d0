"""Whatever a silo, a class or a column is called, a page of Markdown shows that name and nothing else."""

import re
from html import escape

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from amity.predicting.markdown import code, plain

names = st.text(st.sampled_from("ab_7 *`[]()<>|~&#!\\\n-+.") | st.characters(exclude_categories=["C"]), max_size=20)


@given(names)
@example("ward_7_north")
@example("<script>alert(1)</script>")
@example("[click](http://example.org) **now** ![x](y)")
@example("&lt;")
@example("_a_ __b__")
def test_a_name_is_shown_as_it_is(name: str) -> None:
    words = " ".join(name.split())
    shown = MarkdownIt().renderInline(plain(name))
    assert shown == escape(words, quote=True).replace("&#x27;", "'")
    assert (
        re.fullmatch(r"[\w ]*", words) is None or "_" in words or plain(name) == words
    )  # ordinary names stay readable


@given(names.filter(lambda name: name.strip()))
def test_code_is_shown_as_it_is(name: str) -> None:
    words = " ".join(name.split())
    assert MarkdownIt().renderInline(code(name)) == f"<code>{escape(words).replace('&#x27;', chr(39))}</code>"
