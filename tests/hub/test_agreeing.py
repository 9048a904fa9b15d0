"""Silos agree on a schema by message, over kills, refusals and lies: on what a simulation agrees on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from networks import Killed, Pauses, Trial
from sites import signed
from table_silos import NAMES, asked, patients, table_site, table_trial, with_form, with_schema, write

from amity.data.schema.schema_file import read_schema
from amity.errors import LostWorker
from amity.federation.encoding import decode, encode
from amity.federation.messages import Describe, Message, Summarise, Summarised
from amity.federation.run_contract import Limits, schema_hash
from amity.hub import agreeing
from amity.site.results import finish


def agreed(trial: Trial) -> Path:
    """The schema's file, after all silos have agreed."""
    with trial.network() as network:
        trial.conduct(network)
    assert trial.phase == "ended", trial.status
    return trial.folder / agreeing.SCHEMA_FILE


def test_silos_agree_on_what_a_simulation_agrees_on_and_train_to_its_models(tmp_path: Path) -> None:
    trial = table_trial(tmp_path)
    file = agreed(trial)
    schema = read_schema(file)
    assert trial.silos.schema is not None and schema.text() == trial.silos.schema.text()
    assert {column.kind for column in schema.columns} == {"number", "category", "date", "yes/no"}
    assert not (trial.folder / agreeing.SUMMARIES).exists()
    run = with_schema(trial, file)
    with run.network() as network:
        run.conduct(network)
    assert run.phase == "ended", run.status
    run.check_models()
    assert finish(run.site("north"), "trial")["rounds"] == 3  # and codes for itself by the same schema


def test_nothing_is_told_before_somebody_approves(tmp_path: Path, pauses: Pauses) -> None:
    trial = table_trial(tmp_path)
    approvals = next((trial.folders["south"] / "state" / "approvals").iterdir())
    text = approvals.read_text()
    approvals.unlink()
    seen: list[dict[str, str]] = []

    def approve() -> None:
        seen.append(trial.steps)
        approvals.write_text(text)

    pauses.script = [approve]
    agreed(trial)
    assert seen == [{"north": "uploaded", "south": "declined", "east": "uploaded"}]
    audit = (trial.folders["south"] / "state" / "audit.jsonl").read_text().splitlines()
    told = [json.loads(line)["what"] for line in audit]
    assert told == [
        "received Summarise",
        "declined",
        "sent Declined",
        "received Summarise",
        "approved",
        "sent Summarised",
    ]


def test_a_policy_may_refuse_summaries(tmp_path: Path) -> None:
    """Whoever may have approved it by hand; and the run is given up in its time, with the reason."""
    trial = table_trial(tmp_path, asked(limits=Limits(absence=60)))
    with (trial.folders["east"] / "silo.toml").open("a") as file:
        file.write('[policy]\nsummaries = "never"\n')
    with trial.network() as network, pytest.raises(LostWorker, match="east .declined: summaries is never"):
        trial.conduct(network)
    assert trial.phase == "waiting" and not (trial.folder / "schema.toml").exists()


def test_a_server_that_is_killed_asks_only_those_it_has_not_heard(tmp_path: Path) -> None:
    trial = table_trial(tmp_path)
    with trial.network() as network:

        def killed(name: str, message: Message) -> None:
            if name == "east":
                raise Killed

        network.before = killed
        with pytest.raises(Killed):
            trial.conduct(network)
        assert sorted(file.stem for file in (trial.folder / agreeing.SUMMARIES).iterdir()) == ["north", "south"]
        (trial.folder / agreeing.SUMMARIES / "south.json").write_text('{"version": 1')  # and a disk has lied
        network.before, network.sent = lambda name, message: None, []
        trial.conduct(network)
        assert [name for name, _ in network.sent] == ["south", "east"]
    assert trial.phase == "ended"
    assert read_schema(trial.folder / "schema.toml").text() == trial.silos.schema.text()  # type: ignore[union-attr]


def test_a_silo_that_is_killed_meanwhile_is_asked_again(tmp_path: Path, pauses: Pauses) -> None:
    trial = table_trial(tmp_path)
    with trial.network() as network:
        network.away["south"] = "its worker ended"
        pauses.script = [network.away.clear]
        trial.conduct(network)
        assert [name for name, _ in network.sent] == ["north", "south", "east", "south"]
    assert trial.phase == "ended"


def test_a_crash_after_the_schema_asks_nobody_again(tmp_path: Path) -> None:
    trial = table_trial(tmp_path)
    file = agreed(trial)
    before = file.read_bytes()
    with trial.network() as network:
        trial.conduct(network)
        assert network.sent == [] and file.read_bytes() == before and trial.phase == "ended"


def test_what_people_have_to_decide_is_no_success(tmp_path: Path) -> None:
    rows = patients(1)
    for row in rows:
        row[0] = "old"  # an age in words, at one silo
    trial = table_trial(tmp_path)
    write(trial.folders["south"] / "south.csv", rows)
    with trial.network() as network:
        trial.conduct(network)
    assert trial.phase == "incomplete"
    assert "'age' has numbers at one silo and words at another (east, south)" in trial.status["words"]
    assert (trial.folder / "schema.toml").exists()


def test_a_column_that_one_silo_lacks_is_left_out(tmp_path: Path) -> None:
    trial = table_trial(tmp_path)
    rows = [row[:4] + row[5:] for row in patients(2)]
    write(trial.folders["east"] / "east.csv", rows, ("age", "smoker", "seen", "insured", "diagnosis"))
    schema = read_schema(agreed(trial))
    sugar = next(column for column in schema.columns if column.name == "sugar")
    assert (sugar.kind, sugar.why) == ("empty", "east does not have it")
    assert "sugar" not in schema.features


@pytest.mark.parametrize(
    "lie",
    [
        lambda summary: {**summary, "rows": -1},
        lambda summary: {**summary, "more": 1},
        lambda summary: {"version": 1},
        lambda summary: _with(summary, named={"never": 2}),
        lambda summary: _with(summary, named={"never\u202e": 9}),
        lambda summary: _with(summary, mean="5"),
        lambda summary: _with(summary, missing=7),
        lambda summary: _with(summary, days={"ymd": {"mean": 1.0}}),
    ],
    ids=["rows", "key", "keys", "rare word", "unseen letter", "text", "counts", "dates"],
)
def test_a_silo_that_sends_no_summary_is_named_and_takes_no_part(lie: Any, tmp_path: Path, pauses: Pauses) -> None:
    trial = table_trial(tmp_path)

    def lying(name: str, message: Message, answer: bytes) -> bytes:
        found = decode(answer)
        if name != "south" or pauses.count or not isinstance(found, Summarised):
            return answer
        return encode(found._replace(summary=json.dumps(lie(json.loads(found.summary)))))

    told: list[str] = []
    with trial.network() as network:
        network.after = lying
        pauses.script = [lambda: told.append(trial.status["silos"]["south"]["words"])]
        trial.conduct(network)
    assert trial.phase == "ended" and told[0].startswith("what a silo has sent is no summary of columns")
    assert "\n" not in told[0]


def _with(summary: Any, **changes: Any) -> Any:
    columns = {**summary["columns"], "smoker": {**summary["columns"]["smoker"], **changes}}
    return {**summary, "columns": columns}


def test_a_silo_that_joins_later_codes_by_the_schema(tmp_path: Path) -> None:
    """It has words that nobody has named, and was not there when silos agreed."""
    trial = table_trial(tmp_path, asked(("north", "south")))
    file = agreed(trial)
    rows = patients(3)
    rows[0][1], rows[1][1] = "pipe", ""
    trial.folders["east"] = table_site(tmp_path, "east", rows)
    write(tmp_path / "whole" / "east.csv", rows)
    run = with_schema(trial, file)
    with run.network() as network:
        run.conduct(network)
    assert run.phase == "ended", run.status
    schema, x = read_schema(file), read_schema(file).transform([{"smoker": "pipe", "age": "50"}])
    assert float(x[0, list(schema.features).index("smoker=never")]) == 0


@pytest.mark.parametrize("key", ["centre", "scale", "categories"])
def test_a_silo_with_another_coding_is_refused_in_one_line(key: str, tmp_path: Path, pauses: Pauses) -> None:
    trial = table_trial(tmp_path)
    file = agreed(trial)
    own = file.read_text()
    if key == "categories":
        own = own.replace('"never"', '"at no time"', 1)
    else:
        at = own.index(f"\n{key} = ")
        own = own[:at] + f"\n{key} = 7.5" + own[own.index("\n", at + 1) :]
    (trial.folders["south"] / "own.toml").write_text(own)
    lines = (trial.folders["south"] / "silo.toml").read_text()
    (trial.folders["south"] / "silo.toml").write_text(f'{lines}schema = "own.toml"\n')
    run = with_schema(trial, file)
    with run.network() as network:
        answer = decode(network.exchanges["south"](_describe(run)))
    words = answer.words  # type: ignore[union-attr]
    assert words.startswith("silo south: the schema in silo.toml must be the contract's, it has ") and "\n" not in words
    assert schema_hash(run.contract.data.schema or {})[:12] in words


def _describe(run: Trial) -> bytes:
    return encode(Describe(run.contract.name, 0, 1, signed(run.contract)))


def test_a_schema_of_ones_own_needs_a_contract_that_has_it(tmp_path: Path) -> None:
    trial = table_trial(tmp_path)
    file = agreed(trial)
    with (trial.folders["south"] / "silo.toml").open("a") as lines:
        lines.write(f'schema = "{file}"\n')
    schema = read_schema(file)
    same = with_schema(trial, file, name="same")
    without = with_form(trial, same.contract.data._replace(schema=None), name="without")
    with trial.network() as network:
        assert type(decode(network.exchanges["south"](_describe(same)))).__name__ == "Described"
        words = decode(network.exchanges["south"](_describe(without))).words  # type: ignore[union-attr]
    assert "silo.toml names a schema and the contract has none" in words and schema.features


def test_only_a_contract_about_a_schema_asks_for_summaries(tmp_path: Path) -> None:
    """A run's contract that somebody has approved is no leave to send a summary, and the other way round."""
    trial = table_trial(tmp_path)
    run = with_schema(trial, agreed(trial))
    with run.network() as network:
        answer = decode(network.exchanges["north"](encode(Summarise("trial", 0, 0, signed(run.contract)))))
        assert "a schema's contract is needed" in answer.words  # type: ignore[union-attr]
    assert NAMES == run.contract.invited
