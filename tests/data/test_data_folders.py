"""The folders of amity.data know each other in one direction, and a file can be read at one sitting."""

import ast
from pathlib import Path

import pytest

import amity.data

ROOT = Path(amity.data.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# Folder -> the folders of amity.data that it may import. Files beside the folders are single words of their language.
MAY_KNOW = {
    "schema": set[str](),
    "formats": {"schema"},
    "own": {"schema", "formats"},
    "sets": {"schema", "formats", "own"},
    "settings": {"schema", "sets"},
}


def folders_known_to(file: Path) -> set[str]:
    """Folders of amity.data that a file imports from."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    names = [
        f"{node.module}.{alias.name}" for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    names += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    inside = [name.split(".")[2] for name in names if name.startswith("amity.data.")]
    return set(inside) & MAY_KNOW.keys()


@pytest.mark.parametrize("folder", MAY_KNOW)
def test_folders_know_each_other_in_one_direction(folder: str) -> None:
    files = sorted((ROOT / folder).glob("*.py"))
    assert len(files) > 1
    for file in files:
        assert folders_known_to(file) - {folder} <= MAY_KNOW[folder], file


def test_every_folder_is_in_the_picture() -> None:
    assert {file.parent.name for file in FILES} - {"data"} == MAY_KNOW.keys()
    assert all(f"    {folder}/ " in (amity.data.__doc__ or "") for folder in MAY_KNOW)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_files_are_short_and_say_what_they_are(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 300
    assert ast.get_docstring(ast.parse(text))
