"""A search: on validation data alone, the same however it is run, and resumable."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amity import InputError, Run, Silos, deal, load
from amity import run as run_one
from amity.contract import Split
from amity.metric import ACCURACY, RMSE
from amity.tuning import Choices, Range, Trial, Tuned, tune
from amity.tuning.hidden import for_trials
from amity.tuning.pruning import STARTUP, WARMUP, Pruner
from amity.tuning.space import parse_space
from amity.tuning.study import TOGETHER, Study
from amity.tuning.trial import Task
from amity.tuning.workers import _Processes

BASE = Run("fedprox", data="digits", setting="practical", clients=4, model="mlr", rounds=3, epochs=1, workers=1)
SPACE = {"lr": Range(1e-5, 1e-1, log=True), "set.mu": Range(0.001, 1.0, log=True)}


@pytest.fixture(scope="module")
def silos() -> Silos:
    return deal(load("digits"), "practical", 4, 0)


@pytest.fixture(scope="module")
def searched(silos: Silos, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a search that has ended."""
    place = tmp_path_factory.mktemp("searched")
    tune(BASE, silos, space={"lr": Choices((0.01,))}, out=place)
    return place


def told(tuned: Tuned) -> list[tuple[Any, ...]]:
    """Return all that was tried and found, without the time that it took."""
    return [tuple(trial._replace(seconds=0.0)) for trial in tuned.trials]


def test_the_best_on_validation_data_is_found_and_its_run_has_that_score(silos: Silos, tmp_path: Path) -> None:
    tmp_path = tmp_path / "what? #1 50%20 ü"
    tuned = tune(BASE, silos, space=SPACE, trials=6, out=tmp_path)
    assert len(tuned.trials) == 6 and tuned.best == tuned.ranked[0]
    assert tuned.best.validation == max(trial.validation for trial in tuned.trials if trial.state == "done")
    assert tuned.trials[0].values == {"lr": 0.001, "set.mu": 0.01}  # as without a search
    for trial in tuned.trials:
        for name, dimension in SPACE.items():
            assert dimension.low <= trial.values[name] <= dimension.high
            assert float(f"{trial.values[name]:.3g}") == trial.values[name]
    final = run_one(tuned.run, silos)
    assert tuned.run.lr == tuned.best.values["lr"] and tuned.run.settings["mu"] == tuned.best.values["set.mu"]
    assert max(line["val"] or 0.0 for line in final.lines) == tuned.best.validation
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("best.toml", "study.db", "trials.csv", "tune.json", "under-way"),
    ]
    assert not list((tmp_path / "under-way").iterdir())


def test_test_labels_have_no_part_in_it(silos: Silos) -> None:
    """All test labels are wrong: what is tried, found and chosen is the same, to the last digit."""
    wrong = tuple(
        silo._replace(test=Split(silo.test.x.flip(0) * 3, (silo.test.y + 1) % silos.classes)) for silo in silos.silos
    )
    one, other = (tune(BASE, own, space=SPACE, trials=6) for own in (silos, replace(silos, silos=wrong)))
    assert told(one) == told(other) and one.run == other.run


def test_trials_have_the_runs_own_training_and_validation_data_and_no_test_data(silos: Silos) -> None:
    run, hidden = for_trials(replace(BASE, per_silo=30), silos, False)
    assert run.val_fraction == 0.15
    as_run = silos.at_most(30, 0).with_validation(0.15, 0)
    for seen, own, whole in zip(hidden.silos, as_run.silos, silos.silos, strict=True):
        assert own.val is not None and seen.val is not None
        assert seen.train.x.equal(own.train.x) and seen.val.x.equal(own.val.x)
        assert seen.test is seen.val and not seen.test.x.shape == whole.test.x.shape


def test_without_validation_data_there_is_nothing_to_choose_by(silos: Silos) -> None:
    with pytest.raises(InputError, match="tune chooses by validation data, 'silo-00', .* would have none"):
        tune(replace(BASE, val_fraction=0.0), silos, space=SPACE)


def test_an_interrupted_search_goes_on_and_comes_to_the_same(silos: Silos, tmp_path: Path) -> None:
    """Stopped in the middle of a trial, in the second batch; trials that had ended are not run again."""
    count = TOGETHER + 3
    whole = tune(BASE, silos, space=SPACE, trials=count)

    def stop(number: int, step: int, score: float) -> None:
        if (number, step) == (TOGETHER + 1, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(BASE, silos, space=SPACE, trials=count, out=tmp_path, heard=stop)
    heard: list[tuple[int, int]] = []
    again = tune(
        BASE, silos, space=SPACE, trials=count, out=tmp_path, heard=lambda number, step, _: heard.append((number, step))
    )
    assert told(again) == told(whole)
    assert min(heard) >= (TOGETHER, 1)  # the first batch was kept
    heard.clear()
    more = tune(
        BASE,
        silos,
        space=SPACE,
        trials=count + 1,
        out=tmp_path,
        heard=lambda number, step, _: heard.append((number, step)),
    )
    assert told(more)[:count] == told(whole) and {number for number, _ in heard} == {count}


@pytest.mark.slow
def test_processes_side_by_side_come_to_the_same(silos: Silos, tmp_path: Path) -> None:
    small = {"lr": Choices((0.001, 0.1)), "epochs": Choices((1, 2))}
    one = tune(BASE, silos, space=small)
    two = tune(BASE, silos, space=small, workers=2, out=tmp_path)
    assert told(one) == told(two) and len(one.trials) == 4
    tried = [(trial.values["lr"], trial.values["epochs"]) for trial in one.trials]
    assert tried == list(itertools.product((0.001, 0.1), (1, 2)))


def test_a_model_that_cannot_be_sent_to_a_process_is_refused(silos: Silos) -> None:
    from torch import nn

    with pytest.raises(InputError, match="several workers need a model that another process can import"):
        tune(BASE, silos, space=SPACE, workers=2, model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))


def test_another_search_in_the_same_directory_is_refused(silos: Silos, tmp_path: Path) -> None:
    tune(BASE, silos, space={"lr": Choices((0.1,))}, out=tmp_path)
    before = json.loads((tmp_path / "tune.json").read_text())
    with pytest.raises(InputError, match="holds another search, with epochs = 1, got 2: give another --out"):
        tune(replace(BASE, epochs=2), silos, space={"lr": Choices((0.1,))}, out=tmp_path)
    with pytest.raises(InputError, match="holds another search, with space"):
        tune(BASE, silos, space={"lr": Choices((0.2,))}, out=tmp_path)
    with pytest.raises(InputError, match="holds another search, on other data"):
        tune(BASE, deal(load("digits"), "practical", 4, 1), space={"lr": Choices((0.1,))}, out=tmp_path)
    assert json.loads((tmp_path / "tune.json").read_text()) == before


@pytest.mark.parametrize("file", ["study.db", "tune.json"])
@pytest.mark.parametrize("content", [b"", b"[]", b'{"run": 1}', b"SQLite format 3\0 and then nothing", b"[" * 100_000])
def test_damaged_files_of_a_search_are_said_in_one_line(
    silos: Silos, tmp_path: Path, file: str, content: bytes, searched: Path
) -> None:
    for name in ("tune.json", "study.db"):
        shutil.copy(searched / name, tmp_path / name)
    (tmp_path / file).write_bytes(content)
    if (file, content) == ("study.db", b""):  # which is a study without trials
        assert len(tune(BASE, silos, space={"lr": Choices((0.01,))}, out=tmp_path).trials) == 1
        return
    with pytest.raises(InputError, match=f"{file}.* cannot be read.*give another --out") as found:
        tune(BASE, silos, space={"lr": Choices((0.01,))}, out=tmp_path)
    assert "\n" not in str(found.value) and len(str(found.value)) < 500


@pytest.mark.slow  # a process that imports torch to find nothing
def test_a_model_that_a_process_cannot_find_is_refused_and_not_taken_for_a_want_of_memory() -> None:
    lost = b"camity_models_that_are_nowhere\nbuild\n."  # what pickle makes of a function of a module that is not there
    there = _Processes(1, lost)
    try:
        with pytest.raises(InputError, match="cannot be found there .ModuleNotFoundError"):
            list(there.run([Task(0, {}, (), Path(), ())], lambda number, step, score: None, math.inf))
    finally:
        there.end()


def test_trials_tell_all_of_themselves(silos: Silos) -> None:
    """What a silo may tell others has no part in a search on one machine."""
    run, _ = for_trials(replace(BASE, min_count=30), silos, False)
    assert run.min_count == 1
    with pytest.raises(InputError, match="min_count cannot be searched"):
        parse_space(["min_count=1,5"], BASE)


def test_a_value_that_diverges_is_never_chosen(silos: Silos) -> None:
    run = replace(BASE, method="scaffold", rounds=8)
    tuned = tune(run, silos, space={"lr": Choices((1e38, 0.01))})
    first, second = tuned.trials
    assert first.state == "diverged" and first.words.startswith("diverged in round ")
    assert second.state == "done" and tuned.best == second


def test_where_all_diverge_that_is_said(silos: Silos) -> None:
    with pytest.raises(InputError, match="none of 1 trials came to its end .diverged in round"):
        tune(replace(BASE, method="scaffold"), silos, space={"lr": Choices((1e38,))})


def test_one_that_diverges_after_a_short_trial_gives_way_to_the_next(tmp_path: Path) -> None:
    """As in `amity reproduce`: after a round a rate of 100 is ahead of 1e-7; in ten rounds SCAFFOLD's sums overflow."""
    run = Run("scaffold", data="digits", setting="practical", clients=5, model="mlp", rounds=10, epochs=1)
    tuned = tune(run, space={"lr": Choices((100.0, 1e-7))}, trial_rounds=1, out=tmp_path)
    assert tuned.best.values == {"lr": 1e-7} and tuned.run.rounds == 10
    ((passed, words),) = tuned.passed_over
    assert passed.values == {"lr": 100.0} and words.startswith("diverged in round ")
    again = tune(run, space={"lr": Choices((100.0, 1e-7))}, trial_rounds=1, out=tmp_path)
    assert again.best == tuned.best and again.passed_over == tuned.passed_over


def test_seeds_are_tried_each_and_their_mean_counts() -> None:
    space = {"lr": Choices((0.01,))}
    both = tune(BASE, space=space, seeds=[0, 1]).best
    each = [tune(replace(BASE, seed=seed), space=space).best for seed in (0, 1)]
    assert both.validation == pytest.approx((each[0].validation + each[1].validation) / 2)
    assert list(both.steps) == [1, 2, 3, 4, 5, 6]
    assert both.steps[4] == pytest.approx((each[0].validation + each[1].steps[1]) / 2)


def test_a_trial_behind_half_of_the_others_at_the_same_round_is_pruned() -> None:
    after = WARMUP + 1
    earlier: list[Mapping[int, float]] = [{step: 10.0 * place for step in range(1, 6)} for place in range(1, 6)]
    low, level = Pruner(earlier, ACCURACY), Pruner(earlier, ACCURACY)  # the median is 30
    assert [low.ends(step, 29.0) for step in range(1, after + 1)] == [False] * WARMUP + [True]
    assert [level.ends(step, 30.0) for step in range(1, 6)] == [False] * 5
    few = Pruner(earlier[: STARTUP - 1], ACCURACY)
    assert [few.ends(step, 0.0) for step in range(1, 6)] == [False] * 5


def test_a_lower_error_is_better_where_the_metric_says_so() -> None:
    earlier: list[Mapping[int, float]] = [{step: 10.0 * place for step in range(1, 6)} for place in range(1, 6)]
    high, low = Pruner(earlier, RMSE), Pruner(earlier, RMSE)
    assert high.ends(WARMUP + 1, 31.0) and not low.ends(WARMUP + 1, 30.0)


def test_pruned_trials_save_rounds_and_are_not_chosen(silos: Silos) -> None:
    run = replace(BASE, rounds=6)
    rates = (0.05, 0.02, 0.01, 0.03, 1e-7, 0.04)
    tuned = tune(run, silos, space={"lr": Choices(rates)})
    lost = tuned.trials[4]
    assert lost.state == "pruned" and len(lost.steps) == WARMUP + 1 and tuned.best.number != 4


def test_a_trial_that_cannot_run_is_told_and_the_others_go_on(silos: Silos) -> None:
    tuned = tune(replace(BASE, method="fedavg"), silos, space={"model": Choices(("cnn-apple", "mlr"))})
    first, second = tuned.trials
    assert first.state == "failed" and "cnn-apple needs images" in first.words and tuned.best == second


def test_a_score_that_is_undefined_is_no_score() -> None:
    """Each silo has two classes; with one validation example there is no AUROC."""
    run = replace(BASE, setting="pathological", metric="auroc", val_fraction=0.001, rounds=1)
    with pytest.raises(InputError, match="none of 1 trials came to its end .its AUROC on validation data is undefined"):
        tune(run, space={"lr": Choices((0.01,))})


def test_time_that_is_over_leaves_what_is_left_for_another_time(silos: Silos, tmp_path: Path) -> None:
    ended: list[int] = []
    with pytest.raises(InputError, match="no trial came to its end in time"):
        tune(BASE, silos, space=SPACE, trials=2, timeout=1e-9, out=tmp_path)
    tune(BASE, silos, space=SPACE, trials=2, out=tmp_path, ended=lambda trial: ended.append(trial.number))
    assert ended == [0, 1]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"trials": 0}, "trials and workers of at least 1"),
        ({"workers": 0}, "trials and workers of at least 1"),
        ({"timeout": -1.0}, "a timeout above 0"),
        ({"trial_rounds": 4}, "trial_rounds needs to be from 1 to 3"),
        ({"space": {}}, "tune needs something to search"),
        ({"space": {"lr": Choices((-1.0,))}}, "needs lr to be a number > 0"),
    ],
)
def test_what_makes_no_search_is_refused(silos: Silos, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        tune(BASE, silos, **{"space": SPACE, **wrong})


def test_what_is_proposed_follows_from_the_seed_alone() -> None:
    """Told in one go, or by a study that is opened anew after every trial: the next ones are the same."""

    def made_up(number: int, values: Mapping[str, Any]) -> Trial:
        return Trial(number, values, "done", 100 - abs(math.log10(values["lr"]) + 3), {1: 50.0}, 0.1)

    one = Study(None, SPACE, 7, [])
    seen: list[dict[str, Any]] = []
    while len(one.trials) < 16:
        number, values = min(one.next().items())
        seen.append(values)
        one.tell(made_up(number, values))
    two = Study(None, SPACE, 7, [])
    for _ in range(4):
        batch = two.next()
        assert list(batch.values()) == seen[min(batch) : min(batch) + TOGETHER]
        for number, values in batch.items():
            two.tell(made_up(number, values))
    assert len({json.dumps(values) for values in seen}) == 16
    assert Study(None, SPACE, 8, []).next() != Study(None, SPACE, 7, []).next()
    importance = two.importance()
    assert set(importance) == set(SPACE) and importance["lr"] > importance["set.mu"]  # only the rate matters here


def test_seeds_of_any_size_are_taken() -> None:
    """Also where the sampler's own must be small."""
    for seed in (4295, 2**32, 2**63):
        assert len(Study(None, SPACE, seed, []).next()) == TOGETHER


ENDED = replace(BASE, method="fedavg", ending=2)
"""A run after which every silo goes on alone."""


def test_trials_with_an_ending_are_judged_by_what_silos_deliver_after_it(silos: Silos) -> None:
    """Not by what they had before: an ending that spoils every model decides, and so does one that mends it."""
    tuned = tune(ENDED, silos, space={"ending": Choices((1, 30)), "lr": Choices((0.01,))})
    run, hidden = for_trials(ENDED, silos, True)
    for trial in tuned.trials:
        there = run_one(replace(run, ending=trial.values["ending"], lr=0.01), hidden)
        assert trial.validation == there.summary["delivered"] == there.lines[-1]["mean"]
        assert there.lines[-1].get("ending") and list(trial.steps) == [1, 2, 3, 4]
    assert tuned.best.validation == max(trial.validation for trial in tuned.trials)


def test_what_judges_an_ending_is_seen_by_no_part_of_it(silos: Silos) -> None:
    run, hidden = for_trials(replace(ENDED, per_silo=30), silos, True)
    for seen, own in zip(hidden.silos, silos.at_most(30, 0).silos, strict=True):
        known = {tuple(x.flatten().tolist()) for x in seen.train.x}
        judged = {tuple(x.flatten().tolist()) for x in seen.test.x}
        whole = {tuple(x.flatten().tolist()) for x in own.train.x}
        assert judged and not known & judged and known | judged == whole and seen.val is None
    assert run.val_fraction == ENDED.val_fraction


def test_nothing_is_given_up_on_the_way_to_an_ending(silos: Silos) -> None:
    """The first rates are the best before an ending; those that are behind come to their end all the same."""
    rates = Choices((0.1, 0.05, 0.08, 0.06, 1e-6, 1e-7, 1e-5, 2e-6))
    states = {run.ending: {t.state for t in tune(run, silos, space={"lr": rates}).trials} for run in (BASE, ENDED)}
    assert "pruned" in states["default"] and states[2] == {"done"}


def test_a_silo_too_small_to_leave_something_out_is_named(silos: Silos) -> None:
    with pytest.raises(InputError, match="tune needs at least 4 training examples .* fewer at 'silo-00'"):
        tune(replace(ENDED, per_silo=3), silos, space={"lr": Choices((0.01,))})


def test_a_search_before_an_ending_is_not_mixed_with_one_after_it(silos: Silos, tmp_path: Path) -> None:
    """As a search of an earlier version may lie there."""
    space = {"lr": Choices((0.01,))}
    tune(ENDED, silos, space=space, out=tmp_path)
    asked = json.loads((tmp_path / "tune.json").read_text())
    del asked["judged"]
    (tmp_path / "tune.json").write_text(json.dumps(asked))
    with pytest.raises(InputError, match="holds another search, with judged = None, got 'after their ending'"):
        tune(ENDED, silos, space=space, out=tmp_path)
