"""The pages about methods say what the code says."""

import re
import runpy
from pathlib import Path

import pytest

from amity.methods import METHODS, options_of

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "methods.md").read_text(encoding="utf-8")
ERRATA = (DOCS / "errata.md").read_text(encoding="utf-8")


def test_the_page_is_what_the_code_says() -> None:
    generate = runpy.run_path(str(DOCS / "generate.py"))
    assert generate["page"]() == PAGE, "run python docs/generate.py"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_and_option_is_there(name: str) -> None:
    assert f"**`{name}`**" in PAGE
    for option in options_of(name):
        assert f"| `{option['name']}` |" in PAGE


def test_options_that_the_errata_name_exist() -> None:
    known = {option["name"] for name in METHODS for option in options_of(name)}
    named = set(re.findall(r"`([a-z_0-9]+)(?:`:| = )", ERRATA))
    assert named, "the errata name options"
    assert named <= known, f"not an option of any method: {sorted(named - known)}"
