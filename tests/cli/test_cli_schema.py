"""`amity data schema`, `--schema` and `--scale`: messy tables from the first look to a run and its record."""

import json
import runpy
import shutil
from pathlib import Path

import pytest
from cli.commands import Amity, refused, worked

from amity.data.schema.schema_json import schema_of

TABLES = Path(__file__).parents[2] / "examples" / "tables"
QUICK = "--model mlr --rounds 2 --epochs 1 --workers 1".split()
WORDS = ("--data", "folder:clinics", "--label", "diagnosis")


@pytest.fixture
def clinics(tmp_path: Path) -> Path:
    shutil.copytree(TABLES / "clinics", tmp_path / "clinics")
    return tmp_path / "clinics"


def test_the_clinics_are_what_their_script_writes(tmp_path: Path) -> None:
    names = runpy.run_path(str(TABLES / "make_clinics.py"))
    names["write_clinics"](tmp_path)
    for path in (TABLES / "clinics").iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_messy_tables_from_a_look_to_a_record(amity: Amity, clinics: Path, tmp_path: Path) -> None:
    look = amity("data", "schema", WORDS[1], *WORDS[2:], "--out", "schema.toml")
    worked(look)
    head, *rows = (line.split() for line in look.out.splitlines()[:12])
    assert head[:3] == ["column", "kind", "missing"] and {row[0] for row in rows} >= {"patient", "age", "remark"}
    assert "wrote schema.toml: edit it, then give it with --schema schema.toml" in look.out
    again = ("data", "schema", WORDS[1], *WORDS[2:], "--out", "schema.toml")
    worked(amity(*again))  # the same file: nothing is lost
    text = (tmp_path / "schema.toml").read_text()
    (tmp_path / "schema.toml").write_text(text + "# edited\n")
    refused(amity(*again), "schema.toml is there already and differs", "give another --out")
    assert (tmp_path / "schema.toml").read_text() == text + "# edited\n"
    (tmp_path / "schema.toml").write_text(text)
    worked(run := amity("run", "fedavg", *WORDS, *QUICK, "--out", "agreed"))
    assert "note: left out: 'patient', a different value in each row" in run.err
    worked(amity("run", "fedavg", "--data", "folder:clinics", "--schema", "schema.toml", *QUICK, "--out", "given"))
    facts = [json.loads((tmp_path / name / "facts.json").read_text()) for name in ("agreed", "given")]
    assert facts[0]["sha256"] == facts[1]["sha256"] and facts[0]["schema"] == facts[1]["schema"]
    schema = schema_of(facts[0]["schema"])
    assert list(schema.features) == facts[0]["features"] and "smoker=never" in facts[0]["features"]
    (age,) = (column for column in facts[0]["columns"] if column["column"] == "age")
    assert (age["kind"], age["missing"], age["features"]) == ("number", 0.0, ["age"])
    for name in ("north", "south", "east"):
        one, other = ((tmp_path / run / "models" / f"{name}.safetensors").read_bytes() for run in ("agreed", "given"))
        assert one == other
    verified = amity("data", "verify", "folder:clinics", "--schema", "schema.toml")
    assert "17 features: age, sex=f, sex=m" in verified.out and "less" not in verified.out
    plain = amity("settings", "natural", *WORDS, "--scale", "none")
    assert facts[0]["sha256"] not in plain.out and "features are of very different scales" in plain.out


def test_what_is_to_be_decided_is_shown_and_a_file_decides_it(amity: Amity, clinics: Path, tmp_path: Path) -> None:
    north = clinics / "north.csv"
    north.write_text(north.read_text().replace(",never,", ",3,").replace(",yes,", ",maybe,"))
    south = clinics / "south.csv"
    south.write_bytes(south.read_bytes().replace(b";never;", b";2,5;").replace(b";former;", b";1,5;"))
    said = amity("run", "fedavg", *WORDS, *QUICK)
    assert said.code == 2 and said.out == "" and "Traceback" not in said.err
    (line,) = [line for line in said.err.splitlines() if line.startswith("amity: ")]
    assert "column 'smoker' has numbers and other words: clinics/north.csv, line 5 has 'former'" in line
    look = amity("data", "schema", WORDS[1], *WORDS[2:], "--out", "schema.toml")
    worked(look)
    assert "to be decided: column 'smoker'" in look.out
    refused(amity("run", "fedavg", *WORDS, "--schema", "schema.toml"), "smoker is still unclear")
    text = (tmp_path / "schema.toml").read_text()
    decided = 'kind = "category"\ncategories = ["former", "current", "3", "2.5"]\nmissing = true\n'
    before, _, after = text.partition('kind = "unclear"\n')
    (tmp_path / "schema.toml").write_text(before + decided + after.partition("\n")[2])
    worked(amity("settings", "natural", *WORDS, "--schema", "schema.toml"))


def test_several_problems_are_several_lines(amity: Amity, clinics: Path) -> None:
    (clinics / "north.csv").write_text((clinics / "north.csv").read_text() + "N1,x\n")
    east = clinics / "east.csv"
    east.write_bytes(east.read_bytes().replace(b",well,", b",,", 1))
    for command in ("run fedavg --data", "settings natural --data", "data schema", "data verify"):
        said = amity(*command.split(), "folder:clinics", "--label", "diagnosis")
        assert said.code == 2 and said.out == ""
        lines = [line for line in said.err.splitlines() if line.startswith("amity: ")]
        assert len(lines) == 2, said.err
        assert any("clinics/north.csv, line 162: must have 12 values, found 2" in line for line in lines)
        assert any("clinics/east.csv, line 2: diagnosis is missing (''), and it is the label" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["--schema", "nowhere.toml"], "cannot read the schema nowhere.toml"),
        (["--scale", "some"], "one of auto, none, got 'some'"),
    ],
)
def test_options_that_cannot_be_meant(amity: Amity, clinics: Path, words: list[str], needed: str) -> None:
    refused(amity("data", "schema", "folder:clinics", *words, "--label", "diagnosis"), needed)


def test_data_without_tables_have_no_schema(amity: Amity) -> None:
    refused(amity("data", "schema", "digits"), "a schema is made of your own tables, folder:PATH, got 'digits'")
    refused(amity("data", "verify", "digits", "--schema", "s.toml"), "digits has no columns to choose from")
