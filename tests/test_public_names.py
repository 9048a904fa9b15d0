"""Every public name shows how it is used, and what it shows is true.

The examples stand in the docstrings; those of the type aliases in the text below their definition. They are executed
as somebody would type them after `import amity` and `import torch`.
"""

from __future__ import annotations

import ast
import doctest
import importlib
from pathlib import Path
from types import GenericAlias

import pytest
import torch

import amity

HOMES = {name: home for home, names in amity._HOMES.items() for name in names}


def text_below(source: str, name: str) -> str | None:
    """Return the text that stands below the definition of a name in a module, as documentation of aliases does."""
    body = ast.parse(source).body
    for statement, after in zip(body, body[1:], strict=False):
        named = isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == name for target in statement.targets
        )
        if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return str(after.value.value)
    return None


def documentation(name: str) -> str:
    """Return what is said about a public name."""
    value = getattr(amity, name)
    if not isinstance(value, GenericAlias):
        return value.__doc__ or ""
    module = importlib.import_module(HOMES[name])
    return text_below(Path(str(module.__file__)).read_text(encoding="utf-8"), name) or ""


def examples(text: str, name: str) -> doctest.DocTest:
    """Return the examples in a text, ready to be executed."""
    return doctest.DocTestParser().get_doctest(text, {"amity": amity, "torch": torch}, name, None, 0)


def failures(test: doctest.DocTest) -> str:
    """Execute examples, and return what was not as they say; nothing where all is."""
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test, out=said.append)
    return "".join(said)


def test_the_check_of_examples() -> None:
    assert failures(examples(">>> 1 + 1\n2\n", "right")) == ""
    assert "Got:\n    2" in failures(examples(">>> 1 + 1\n3\n", "wrong"))
    assert "NameError" in failures(examples(">>> unknown\n", "broken"))
    source = 'A = int\n"""About A."""\nB = str\n"""About B."""\nC = 1\n'
    assert [text_below(source, name) for name in "ABC"] == ["About A.", "About B.", None]


@pytest.mark.parametrize("name", amity.__all__)
def test_a_public_name_has_an_example_that_is_true(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    test = examples(documentation(name), name)
    assert test.examples, f"amity.{name} has no example in its documentation"
    assert failures(test) == ""
    assert list(tmp_path.iterdir()) == []


def test_there_are_few_public_names() -> None:
    assert len(amity.__all__) <= 30
