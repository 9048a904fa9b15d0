"""silo.toml: all that is wrong is said at once, and nothing that belongs to the silo lies in the kit."""

from __future__ import annotations

from pathlib import Path

import pytest

from amity.errors import InputError
from amity.site.config import load_site, site_of

WHOLE = """
name = "north"
state = "../north-state"
data = "patients.csv"
label = "diagnosis"
drop_columns = ["id"]
test_fraction = 0.25
model = "my_models:build"
threads = 2

[policy]
methods = ["fedamp"]
approve = "standing"
"""


def test_paths_begin_where_the_file_lies(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "silo.toml").write_text(WHOLE)
    site = load_site(tmp_path / "here")
    assert (site.name, site.label, site.drop_columns, site.threads) == ("north", "diagnosis", ("id",), 2)
    assert site.state == tmp_path / "north-state" and site.data == tmp_path / "here" / "patients.csv"
    assert site.run("trial") == tmp_path / "north-state" / "runs" / "trial"
    assert site.policy.methods == ("fedamp",) and site.policy.approve == "standing"
    with pytest.raises(InputError, match="a run's name is letters, digits"):
        site.run("../elsewhere")


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    table = {
        "name": "../north",
        "factory": "no colon",
        "label": "ill",
        "threads": 0,
        "test_fraction": 1.5,
        "drop_columns": "id",
        "colour": "red",
        "policy": {"most_rounds": "many"},
    }
    with pytest.raises(InputError) as refused:
        site_of(table, tmp_path)
    text = str(refused.value)
    for key in (
        "name must",
        "state is missing",
        "factory must",
        "threads",
        "test_fraction",
        "drop_columns",
        "'colour'",
    ):
        assert key in text, key
    assert "most_rounds" in text and "are about a table's columns" in text and "\n" not in text


@pytest.mark.parametrize("key", ["state", "data"])
@pytest.mark.parametrize("place", ["kit", "kit/inside", "link/inside", "other/../kit/state"])
def test_what_is_the_silos_own_lies_outside_the_kit(key: str, place: str, tmp_path: Path) -> None:
    (tmp_path / "kit" / "inside").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "kit")
    table = {"name": "north", "state": "state", "data": "data.csv", key: place}
    with pytest.raises(InputError, match=f"{key} must lie outside the kit"):
        site_of(table, tmp_path)


@pytest.mark.parametrize("brought", [{}, {"data": "a.csv", "factory": "a:b"}])
def test_data_come_from_one_place(brought: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="named by data or by factory"):
        site_of({"name": "north", "state": "state", **brought}, tmp_path)


@pytest.mark.parametrize(("content", "said"), [(None, "cannot be read"), ("name = ", "not valid TOML")])
def test_a_file_that_is_none_is_one_line(content: str | None, said: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "silo.toml").write_text(content)
    with pytest.raises(InputError, match=said):
        load_site(tmp_path)
