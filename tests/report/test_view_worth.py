"""Verdicts of a view, against an independent computation from the predictions that runs leave on disk."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from report.reported_runs import SILOS, a_run
from rich.console import Console
from scipy import optimize

import amity
from amity.errors import InputError
from amity.metric import MetricWord
from amity.record import Line, Record, read
from amity.report.contents import WorthView
from amity.report.series import series_of
from amity.report.verdict_table import MOST, WORST, shown, verdict_table
from amity.report.view_worth import worth_of

Z = 1.959963984540054


def verdicts(records: list[Record]) -> WorthView:
    found, why = worth_of(series_of(records))
    assert not why
    return found[0]


def tango(first: np.ndarray, second: np.ndarray, training: float = 2.0) -> tuple[float, float, float]:
    """Difference and interval by a search over all chances, where production code has Tango's closed form."""
    n, won, lost = len(first), int((first & ~second).sum()), int((~first & second).sum())

    def statistic(difference: float) -> float:
        def unlikely(rarer: float) -> float:
            chances = np.array([rarer + difference, rarer, 1 - 2 * rarer - difference])
            counts = np.array([won, lost, n - won - lost])
            return -float(np.where(counts > 0, counts * np.log(np.maximum(chances, 1e-300)), 0).sum())

        low, high = max(0.0, -difference), (1 - difference) / 2
        found = optimize.minimize_scalar(unlikely, bounds=(low, high), method="bounded", options={"xatol": 1e-13}).x
        best = min((found, low, high), key=unlikely)
        return (won - lost - n * difference) / math.sqrt(max(n * (2 * best + difference - difference**2), 1e-300))

    middle = (won - lost) / n
    edge = 1 - 1e-9
    low = optimize.brentq(lambda d: statistic(d) - Z, -edge, middle) if statistic(-edge) > Z else -1.0
    high = optimize.brentq(lambda d: statistic(d) + Z, middle, edge) if statistic(edge) < -Z else 1.0
    wide = [math.hypot(100 * (middle - low), Z * training), math.hypot(100 * (high - middle), Z * training)]
    return 100 * middle, 100 * middle - wide[0], 100 * middle + wide[1]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, amity.Comparison]:
    """Real runs on real data, few rounds: methods differ a lot there."""
    path = tmp_path_factory.mktemp("compared")
    base: dict[str, Any] = {"data": "digits", "clients": 6, "rounds": 3, "epochs": 2, "model": "mlr"}
    runs = [amity.Run("fedavg", **base), amity.Run("heurfedamp", **base)]
    return path, amity.compare(runs, out=path, alone=True, report=False)


def test_verdicts_are_those_of_the_predictions_on_disk(compared: tuple[Path, amity.Comparison]) -> None:
    path, comparison = compared
    found = {worth["method"]: worth for worth in comparison.worth}
    assert list(found) == ["heurfedamp", "fedavg"]  # the only one with personal models leads
    for method, worth in found.items():
        assert worth["alone"] == "separate" and worth["shared"] == "fedavg" and worth["score"] == "accuracy"
        for verdict in worth["silos"]:
            right = {
                name: np.load(path / name / "predictions" / f"{verdict['silo']}.npz")["delivered"]
                for name in (method, "separate", "fedavg")
            }
            points, low, high = tango(right[method], right["separate"])
            assert verdict["examples"] == len(right[method])
            assert verdict["difference"] == pytest.approx(points, abs=1e-3)
            assert (verdict["low"], verdict["high"]) == pytest.approx((low, high), abs=0.02)
            expected = "gains" if low > 0 else "better alone" if high < 0 else "no clear difference"
            assert verdict["judgement"] == expected
            assert verdict["personal"] == pytest.approx(100 * right[method].mean(), abs=1e-3)
            assert verdict["alone"] == pytest.approx(100 * right["separate"].mean(), abs=1e-3)
            assert verdict["shared"] == pytest.approx(100 * right["fedavg"].mean(), abs=1e-3)
        judged = [verdict["judgement"] for verdict in worth["silos"]]
        counts = [judged.count(what) for what in ("gains", "better alone", "no clear difference", "cannot be compared")]
        assert [worth["gain"], worth["lose"], worth["level"], worth["unknown"]] == counts
        assert worth["mean"] == pytest.approx(np.mean([verdict["difference"] for verdict in worth["silos"]]), abs=1e-3)
    content = json.loads((path / "results.json").read_text())
    assert content["worth"] == comparison.worth


def test_swapping_the_sides_negates(tmp_path: Path) -> None:
    one: list[list[tuple[int, ...]]] = [[(9, 7, 5, 3)], [(2, 7, 6, 9)]]
    worth = [
        verdicts(
            [
                a_run(tmp_path / f"{order}-a", "separate", one[order]),
                a_run(tmp_path / f"{order}-b", "fedamp", one[1 - order]),
            ]
        )
        for order in (0, 1)
    ]
    for a, b in zip(worth[0]["silos"], worth[1]["silos"], strict=True):
        assert a["difference"] is not None and b["low"] is not None and b["high"] is not None
        assert a["difference"] == -b["difference"]  # type: ignore[operator]
        assert (a["low"], a["high"]) == pytest.approx((-b["high"], -b["low"]), abs=1e-3)
    assert (worth[0]["gain"], worth[0]["lose"]) == (worth[1]["lose"], worth[1]["gain"])


@given(st.permutations(range(4)))
def test_relabelling_silos_permutes(order: list[int]) -> None:
    """A record whose silos are in another order: by name, the same verdicts."""
    records = [Relabelled("separate", [5, 3, 8, 2], order), Relabelled("fedamp", [5, 9, 3, 10], order)]
    plain = [Relabelled("separate", [5, 3, 8, 2], [0, 1, 2, 3]), Relabelled("fedamp", [5, 9, 3, 10], [0, 1, 2, 3])]
    found, known = (verdicts(list(map(as_record, each))) for each in (records, plain))
    by_name = {verdict["silo"]: verdict for verdict in known["silos"]}
    assert [verdict["silo"] for verdict in found["silos"]] == [SILOS[place] for place in order]
    assert all(by_name[verdict["silo"]] == verdict for verdict in found["silos"])
    assert found["words"] == known["words"] and found["chance"] == known["chance"]


class Relabelled:
    """The parts of a record that verdicts look at, with silos in some order."""

    def __init__(self, method: str, right: list[int], order: list[int]) -> None:
        self.silos = [SILOS[place] for place in order]
        each = [np.arange(10) < right[place] for place in order]
        self.predictions = {silo: {"delivered": one} for silo, one in zip(self.silos, each, strict=True)}
        self.path, self.config = Path(method), {"rounds": 0}
        self.lines: list[Line] = []
        self.summary: dict[str, float] = {}
        self.facts = {"score": "accuracy", "test_sha256": "0"}
        self.models_elsewhere = False
        told = {"method": method, "seed": 0, "data": "d", "setting": "s", "model": "m", "delivered": 50.0}
        self.results = {**told, "per_client": [float(10 * right[place]) for place in order]}


def as_record(one: Relabelled) -> Record:
    return one  # type: ignore[return-value]


def test_silos_of_ones_own_have_one_verdict_over_seeds() -> None:
    draw = torch.Generator().manual_seed(3)

    def part(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(count, 4, generator=draw)
        return x, (x[:, 0] + x[:, 1] > 0).long()

    silos = amity.own_silos({name: (*part(8), *part(60)) for name in ("north", "south")})
    found = amity.run(amity.Run("fedavg", model="mlr", rounds=2), silos, seeds=[0, 1, 2], alone=True)
    worth = found.worth
    assert len(worth["silos"]) == 2 and "Over 3 seeds" in worth["rule"]
    for verdict in worth["silos"]:
        seeds = []
        for one in found.results.values():
            assert one.alone is not None
            name = verdict["silo"]
            ours, theirs = (run.record.predictions[name]["delivered"] for run in (one, one.alone))
            seeds.append(tango(ours, theirs, training=0.0))
        points, low, high = np.mean(seeds, axis=0)
        noise = Z * 2.0 / math.sqrt(3)
        assert verdict["difference"] == pytest.approx(points, abs=1e-3)
        assert verdict["low"] == pytest.approx(points - math.hypot(points - low, noise), abs=0.02)
        assert verdict["high"] == pytest.approx(points + math.hypot(high - points, noise), abs=0.02)
        assert len(verdict["over_seeds"]) == 3


def test_silos_that_are_dealt_anew_are_counted_one_by_one(tmp_path: Path) -> None:
    records = [
        a_run(tmp_path / method / f"seed-{seed}", method, [right], seed=seed)
        for method, rights in (("separate", [(0, 0, 0, 0)] * 2), ("fedamp", [(10, 0, 0, 0), (10, 10, 0, 0)]))
        for seed, right in enumerate(rights)
    ]
    worth = verdicts(records)
    assert (worth["gain"], worth["level"], worth["lose"]) == (3, 5, 0)
    assert worth["words"] == (
        "Joining was worth it for 3 of 8 silos; for 5 there is no clear difference (silos of 2 seeds, each dealt anew)."
    )
    assert [verdict["judgement"] for verdict in worth["silos"]] == ["gains", *["no clear difference"] * 3]
    assert worth["silos"][1]["over_seeds"] == ["no clear difference", "gains"]


def test_quantities_are_compared_by_their_squared_errors() -> None:
    draw = torch.Generator().manual_seed(5)

    def part(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(count, 3, generator=draw)
        return x, 5 + 3 * x[:, 0].double() - x[:, 1].double() + 0.1 * torch.randn(count, generator=draw).double()

    silos = amity.own_silos({"north": (*part(6), *part(80)), "south": (*part(30), *part(80))}, classes=0)
    result = amity.run(amity.Run("fedavg", model="mlr", rounds=5), silos, alone=True)
    assert result.alone is not None and result.worth["score"] == "r2" and "bootstrap" in result.worth["rule"]
    for silo, verdict in zip(silos.silos, result.worth["silos"], strict=True):
        y = silo.test.y.double().numpy()
        squares = [run.record.predictions[silo.name]["delivered"] ** 2 for run in (result.alone, result)]
        gain = 100 * (squares[0] - squares[1]) / np.mean((y - y.mean()) ** 2)
        assert verdict["difference"] == pytest.approx(gain.mean(), rel=1e-3, abs=0.01)
        assert verdict["personal"] == pytest.approx(result.scores[silo.name], abs=1e-3)
        half = math.hypot(1.96 * gain.std(ddof=1) / math.sqrt(len(gain)), 3.0 * Z)
        assert verdict["low"] is not None and verdict["high"] is not None
        assert verdict["high"] - verdict["low"] == pytest.approx(2 * half, rel=0.25)


@pytest.mark.parametrize("word", ["balanced", "f1", "auroc"])
def test_verdicts_are_by_the_main_metric(word: MetricWord) -> None:
    """One test example in ten is of the rare class: the numbers of accuracy and of other metrics lie far apart."""
    draw = torch.Generator().manual_seed(7)

    def part(count: int, rare: float = 0.1) -> tuple[torch.Tensor, torch.Tensor]:
        y = (torch.rand(count, generator=draw) < rare).long()
        return torch.randn(count, 3, generator=draw) + y[:, None], y

    one_class = part(30)[0], torch.zeros(30, dtype=torch.int64)
    silos = amity.own_silos(
        {"north": (*part(40), *part(120)), "south": (*part(40, 0.5), *part(120)), "west": (*part(40), *one_class)}
    )
    result = amity.run(amity.Run("fedavg", model="mlr", rounds=3, metric=word), silos, alone=True)
    worth = result.worth
    assert result.alone is not None and worth["score"] == result.metric.key and result.metric.title in worth["rule"]
    for verdict in worth["silos"][:2]:
        name = verdict["silo"]
        ours, theirs = result.scores[name], result.alone.scores[name]
        assert (verdict["personal"], verdict["alone"]) == pytest.approx((ours, theirs), abs=1e-3)
        assert verdict["difference"] == pytest.approx(ours - theirs, abs=1e-3)
        right = [100 * run.record.predictions[name]["delivered"].mean() for run in (result, result.alone)]
        assert verdict["alone"] != pytest.approx(right[1], abs=1)  # by accuracy it would be another number
    if word == "auroc":
        assert worth["silos"][2]["words"] == (
            "cannot be compared: all its test examples are of one class, for which AUROC is undefined"
        )


def test_smaller_errors_are_a_gain() -> None:
    draw = torch.Generator().manual_seed(5)

    def part(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(count, 3, generator=draw)
        return x, 5 + 3 * x[:, 0].double() - x[:, 1].double() + 0.1 * torch.randn(count, generator=draw).double()

    silos = amity.own_silos({"north": (*part(6), *part(80)), "south": (*part(30), *part(80))}, classes=0)
    result = amity.run(amity.Run("fedavg", model="mlr", rounds=5, metric="rmse"), silos, alone=True)
    assert result.alone is not None and result.worth["score"] == "rmse"
    for verdict in result.worth["silos"]:
        ours, theirs = (run.scores[verdict["silo"]] for run in (result, result.alone))
        assert verdict["difference"] == pytest.approx(100 * (1 - ours / theirs), abs=1e-3)
        assert verdict["words"] == "no clear difference" or verdict["words"].endswith(" %")
    assert " % (signed-rank test" in result.worth["chance"]
    screen = io.StringIO()
    Console(file=screen, width=200).print(verdict_table(result.worth))
    assert "Alone RMSE" not in screen.getvalue().split("Silo")[0] and "Smaller RMSE, %" in screen.getvalue()


def test_a_run_under_way_has_scores_and_no_verdict(tmp_path: Path) -> None:
    separate = a_run(tmp_path / "a", "separate", [(5, 5, 5, 5)])
    running = a_run(tmp_path / "b", "fedamp", [(9, 9, 9, 9)], finish=False)
    worth = verdicts([separate, running])
    assert worth["words"] == "Whether joining was worth it is known when both runs are finished."
    assert worth["unknown"] == 4 and worth["silos"][0]["personal"] == 90.0 and worth["silos"][0]["alone"] == 50.0


def test_why_there_are_no_verdicts(tmp_path: Path) -> None:
    separate = a_run(tmp_path / "a", "separate", [(5, 5, 5, 5)])
    fedamp = a_run(tmp_path / "b", "fedamp", [(9, 9, 9, 9)])
    other = a_run(tmp_path / "c", "fedamp", [(9, 9, 9, 9)], seed=1)
    assert "no silo has joined" in worth_of(series_of([separate]))[1]
    assert "--no-alone" in worth_of(series_of([fedamp]))[1]
    assert "other silos, seeds" in worth_of(series_of([separate, other]))[1]
    object.__setattr__(fedamp, "facts", {**fedamp.facts, "engine": "flare"})
    assert "amity federation verdict" in worth_of(series_of([fedamp, separate]))[1]


def test_the_choice_of_a_method_is_said(tmp_path: Path) -> None:
    names = ("separate", "fedavg", "fedamp", "pfedatt")
    right = {"separate": 5, "fedavg": 9, "fedamp": 7, "pfedatt": 8}
    tested = [a_run(tmp_path / name, name, [(right[name],) * 4]) for name in names]
    lead = verdicts(tested)
    assert lead["method"] == "pfedatt" and "test results are the best of 2 methods" in lead["choice"]
    val = {"separate": 50.0, "fedavg": 90.0, "fedamp": 81.0, "pfedatt": 80.0}
    validated = [a_run(tmp_path / f"v-{name}", name, [(right[name],) * 4], val=val[name]) for name in names]
    lead = verdicts(validated)
    assert lead["method"] == "fedamp" and "best validation results" in lead["choice"]
    only = verdicts([tested[0], tested[1], tested[2]])
    assert only["method"] == "fedamp" and only["choice"] == ""
    assert verdicts(tested[:2])["method"] == "fedavg"


def test_results_without_silos_alone_have_no_verdicts() -> None:
    run = amity.Run("fedavg", data="digits", clients=2, rounds=1, epochs=1, model="mlr")
    with pytest.raises(InputError, match="alone=True"):
        _ = amity.run(run).worth
    assert amity.run(amity.Run("separate", data="digits", clients=2, rounds=1, epochs=1), alone=True).alone is None


def test_the_terminal_shows_all_silos_or_the_worst(tmp_path: Path) -> None:
    worth = verdicts(
        [a_run(tmp_path / "a", "separate", [(5, 5, 5, 5)]), a_run(tmp_path / "b", "fedamp", [(9, 9, 9, 0)])]
    )
    assert len(shown(worth)) == 4
    many: WorthView = {**worth, "silos": [{**worth["silos"][0], "difference": float(n)} for n in range(MOST + 1)]}
    assert [verdict["difference"] for verdict in shown(many)] == [float(n) for n in range(WORST)]
    assert verdict_table(worth) is not None


def test_records_that_are_read_again_have_the_same_verdicts(compared: tuple[Path, amity.Comparison]) -> None:
    path, comparison = compared
    again = [read(path / name) for name in ("fedavg", "heurfedamp", "separate")]
    assert worth_of(series_of(again))[0] == comparison.worth


def test_the_example_of_the_guide() -> None:
    page = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, Any] = {"amity": amity}
    exec(code, names)
    worth: WorthView = names["result"].worth
    assert len(worth["silos"]) == 20 and worth["words"].startswith("Joining was worth it") and worth["chance"]
