"""From a run to its advice."""

from __future__ import annotations

from dataclasses import replace

from amity.advising.answer import Advice, Expected, join_of, proposed, reason_of
from amity.advising.expected import at_silo, over_silos, score_at, score_of
from amity.advising.looking import looked
from amity.advising.probe import TOGETHER, Outcomes, Tell, candidates, folds_of, probed
from amity.config.references import ALONE
from amity.config.run import Run
from amity.data import Silos
from amity.errors import InputError
from amity.left_out import PARTS, check_sizes
from amity.prepare import prepare, silos_of
from amity.private_runs import refuse_trials
from amity.resolve import Builds
from amity.trials import command_of
from amity.worth.consortium import counted
from amity.worth.paired import Difference

ROUNDS = 10
BUDGET = 600.0


def advise(
    run: Run,
    silos: Silos | None = None,
    *,
    rounds: int | None = None,
    folds: int | None = None,
    budget: float = BUDGET,
    model: Builds | None = None,
    data_dir: str | None = None,
    tell: Tell = lambda words: None,
) -> Advice:
    """Find out whether silos should join, with which method, and what they may expect; look at no test data.

    `run` says which data, and how they would be run; its method is not looked at. `silos`: your own federation. The
    probe has `rounds` rounds (10, or the run's where these are fewer), and leaves out `folds` of four parts of each
    silo's training data, one after the other (all four where there are few examples); no part is begun after `budget`
    seconds. `tell` hears what has been done.

    >>> few = amity.Run(data="synthetic", setting="iid", clients=3, per_silo=20, model="mlr", epochs=1)
    >>> advice = amity.advise(few, rounds=1, folds=1)
    >>> advice.join in ("yes", "some", "level", "no"), len(advice.silos), advice.command[:9]
    (True, 3, 'amity run')
    """
    if not isinstance(run, Run):
        raise InputError(f"advise needs an amity.Run, got {run!r}: try amity.advise(amity.Run(data='digits'))")
    refuse_trials(run, "advise")
    short = replace(run, rounds=_checked_rounds(run, rounds, folds, budget))
    own = (silos_of(run, data_dir) if silos is None else silos).at_most(run.per_silo, run.seed)
    if len(own.silos) < 2:
        raise InputError(f"advise needs at least 2 silos, {own.data} has {len(own.silos)}: there is nobody to join")
    check_sizes(own, "advise")
    for one in candidates(short):
        prepare(one, own, model=model)  # what is wrong with the run is said before anything is trained
    found, done = probed(short, own, folds or folds_of(own), budget, model, tell)
    return _advice(short, run, own, found, done, data_dir)


def _checked_rounds(run: Run, rounds: int | None, folds: int | None, budget: float) -> int:
    """Return the rounds of a probe; refuse numbers that make none."""
    if rounds is not None and rounds < 1 or folds is not None and not 1 <= folds <= PARTS or not budget > 0:
        raise InputError(
            f"advise needs rounds of at least 1 (--probe-rounds), folds from 1 to {PARTS} (--parts), a budget above 0, "
            f"got rounds={rounds}, folds={folds}, budget={budget:g}: leave them out"
        )
    return min(ROUNDS, run.rounds) if rounds is None else rounds


def _advice(short: Run, run: Run, silos: Silos, found: Outcomes, folds: int, data_dir: str | None) -> Advice:
    first, second = TOGETHER
    names = [silo.name for silo in silos.silos]

    def over(one: str, other: str) -> list[Expected]:
        pairs = [(name, found[one][name], found[other][name]) for name in names]
        return [Expected(name, len(a.each), score_at(b), score_at(a), at_silo(a, b, folds)) for name, a, b in pairs]

    apart = over_silos([one.difference for one in over(first, second)])
    tried, other = (second, first) if apart.high < 0 else (first, second)
    if tried == second:
        apart = Difference(-apart.points, -apart.high, -apart.low)
    each = over(tried, ALONE)
    gain = over_silos([one.difference for one in each])
    join = join_of(gain, counted([one.judgement for one in each]))
    chosen = proposed(run, join, tried)
    return Advice(
        join=join,
        tried=tried,
        reason=reason_of(tried, other, apart),
        gain=gain,
        silos=each,
        run=chosen,
        command=command_of(chosen, data_dir),
        score=score_of(found[tried][names[0]]),
        seen=looked(silos),
        data=silos.data,
        rounds=short.rounds,
        folds=folds,
    )
