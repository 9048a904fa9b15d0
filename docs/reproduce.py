"""Write docs/reproduce.md from the outcomes in experiments/results: no number is typed by hand.

python docs/reproduce.py             rewrite the page, and the tables and figures beside the outcomes
python docs/reproduce.py --page      rewrite the page alone
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path

from amity.errors import InputError
from amity.papers import reproduce, spec, tables
from amity.papers.results import Results

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "experiments" / "results"
PAGE = DOCS / "reproduce.md"
SHOWN = ("cpu", "paper")  # numbers of size quick say only that an experiment runs

HEAD = """# The papers' experiments

What is true of each paper, as far as it was run here: at size `cpu`, with fewer rounds and epochs than the papers
have. The numbers count comparisons; [the claims](#the-claims-at-a-glance) have them one by one.

1. **FedAMP and HeurFedAMP** (AAAI 2021) are better than training alone, and than one global model, on FMNIST.
2. Their margin over fine-tuned FedAvg and Ditto is not there after 10 rounds of 3 epochs: better than all others in
   10 of 14 on FMNIST, EMNIST and CIFAR100, and in 4 of 12 on MNIST. The paper has 90 rounds of 10 epochs, which nobody
   has run here yet.
3. HeurFedAMP is better than FedAMP, but not clearly, in 1 of 1. Fine-tuning a global model helps in 12 of 12.
4. While silos drop out, both lead in 9 of 18; with half of them away FedAMP loses more than 3 points on FMNIST.
5. **PFedAtt** (ACML 2021) is first on FMNIST, in 2 of 2, and on MNIST in 2 of 3. A moderate k does as well as
   listening to all (4 of 4).
6. That larger lambda and larger batches help PFedAtt was not seen: 0 of 4 each.
7. **FedACS** (ICASSP 2024) is best where data are scarce in 4 of 7: Ditto, FedAMP and Per-FedAvg are better.
8. That FedACS gains from more even classes was not seen (0 of 4): with few classes per silo a personal model has less
   to learn.
9. **APPLE** (IJCAI 2022) is better than the others in the practical setting in 13 of 26, and below fine-tuned FedAvg
   and HeurFedAMP.
10. A small budget costs APPLE less than 4 points (3 of 3), and that its penalty helps was not seen (0 of 1).

    amity reproduce                                  # what there is, and how much of it is recorded
    amity reproduce fedamp/table3 --size quick       # minutes: see that it runs
    amity reproduce fedamp/table3 --size cpu         # hours on two cores
    amity reproduce fedamp/table3 --size paper       # the paper's full protocol, for a large machine

Every table and figure of the four papers is a file in [experiments/](../experiments): which methods on which data, with
which options, at which size, and what the paper reports. `amity reproduce` runs what is missing and skips what is
recorded in `--out` (by default `reproduced/`), goes on where it was interrupted, and writes tables (Markdown, CSV) and
figures (PNG, PDF). Experiments that need the same run share it. `--rows` and `--columns` do a part; `--no-run` only
redraws. Your own experiments are TOML files too: `--from DIR`.

This page shows what was recorded in [experiments/results](../experiments/results), on a machine of 2 cores and 24 GiB
without a GPU. It is made by `docs/reproduce.py`; a test fails when it is not up to date.

How to read it. The papers leave much unsaid (seeds, splits, rates), and size `cpu` has fewer rounds and epochs than the
papers: compare the order of the methods, not the digits. BMTA is the papers' number: the best mean test accuracy over
rounds, which chooses the round on test data; the last round's is beside it. A claim counts as *confirmed* where the
mean over silos says so in every comparison that was run, and not clearly if it is clear in none of them; verdicts say
what was not run.

- *Clearly* is p < 0.05 over silos after Holm's correction over all comparisons of the claim: Wilcoxon's signed ranks,
  or Mann and Whitney's ranks where settings are compared, whose silos are not the same; exact, ties included. Silos of
  several seeds are dealt anew and count each; hospitals, which are the same in every seed, count once: of four no
  comparison can be clear, whatever is seen, and verdicts say *too few silos*.
- *Equal work*: a fine-tuned model of round k has had k + 1 local trainings, that of other methods k. So fine-tuned
  methods are compared a round earlier, or the verdict says that they had a training more. Tables show the papers'
  numbers, with what fine-tuning reaches at equal work below them.
- *Not counted* is a win of, or over, a run that diverged, or whose attention degenerated into another method's: into
  separate training, or into one average for all. A defeat counts always.
- Where a rate or the like was *chosen on validation data*, in short runs, a value with which the long run diverged
  gives way to the next best.

[metrics.md](metrics.md) has these rules in full.
"""


described = functools.cache(spec.read)
"""Reads and checks an experiment; that takes a while, and it is asked for several times."""


def recorded() -> Iterator[Results]:
    """Yield every experiment at every size of which something is recorded; those without runs come once."""
    for name in spec.names():
        experiment = described(name)
        shown: list[list[Path]] = []  # two sizes may be the same runs
        for size in experiment.sizes:
            results = reproduce.recorded(experiment, size, RESULTS)
            files = [outcome.path for outcomes in results.outcomes.values() for outcome in outcomes]
            if files and files in shown:
                continue
            shown.append(files)
            if results.outcomes or (size == "cpu" and not experiment.cells(size)):
                yield results


def page() -> str:
    """Return the text of docs/reproduce.md."""
    found = [results for results in recorded() if results.size in SHOWN]
    parts = [HEAD.rstrip(), "## The claims at a glance", *_glance(found)]
    papers = list(dict.fromkeys(results.experiment.name.partition("/")[0] for results in found))
    for paper in papers:
        for results in found:
            if results.experiment.name.startswith(f"{paper}/"):
                parts += _experiment(results)
    parts += ["## What is recorded", _coverage()]
    return "\n\n".join(parts) + "\n"


def _glance(found: list[Results]) -> Iterator[str]:
    """Yield the verdicts on the claims of each experiment, without the comparisons behind them."""
    for results in found:
        lines = list(tables.claims(results, results.columns, briefly=True))
        if lines:
            yield f"**{results.experiment.name}**, size `{results.size}`"
            yield lines[-1]


def _experiment(results: Results) -> Iterator[str]:
    """Yield the section of one experiment: its heading, tables and figures."""
    experiment = results.experiment
    yield f"## {experiment.id}. {experiment.title}"
    yield from tables.heading(results)
    if not any(output.kind in ("table", "wilcoxon") for output in experiment.outputs):  # which have the claims
        yield from tables.claims(results, results.columns)
    folder = RESULTS / experiment.name.partition("/")[0] / results.size
    for output in experiment.outputs:
        if output.kind in tables.KINDS:
            yield from tables.make(output, results).paragraphs
        elif (folder / f"{output.name}.png").exists():
            place = f"../experiments/results/{folder.relative_to(RESULTS).as_posix()}/{output.name}"
            yield f"![{experiment.title}: {spec.KINDS[output.kind]}]({place}.png)"
            caption = spec.KINDS[output.kind]
            yield f"{caption[0].upper()}{caption[1:]} ([PDF]({place}.pdf))."


def _coverage() -> str:
    """Return a table of how many runs of each experiment are recorded."""
    body = []
    for name in spec.names():
        experiment = described(name)
        counts = []
        for size in spec.SIZES:
            if size not in experiment.sizes:
                counts.append("")
                continue
            total = reproduce.total(experiment, size)
            left = reproduce.missing(experiment, size, RESULTS)
            counts.append(f"{total - left} of {total}" if total else "no runs needed")
        body.append([experiment.id, f"`{name}`", experiment.title, *counts])
    return tables.markdown(["", "name", "", *spec.SIZES], body)


def outputs() -> None:
    """Write the tables and figures of everything that is recorded."""
    from amity.cli.reproduce import show

    for results in recorded():
        show(results.experiment, results.size, RESULTS, None)


if __name__ == "__main__":
    if "--page" not in sys.argv[1:]:
        try:
            outputs()
        except InputError as error:  # figures of who holds what need the data
            sys.exit(f"docs/reproduce.py: {error}")
    PAGE.write_text(page(), encoding="utf-8")
