"""Benchmarks: speed as ratios against baselines measured in the same run, because machines are shared and noisy.

One file per subject, with `cases(quick)`: name -> work, the baseline first; its docstring says what is compared. Work
may return figures of its own, and "seconds" among them replaces the clock's. A file may also have:

    GOALS           what is promised
    NEEDS           packages beyond Amity's own
    baseline(case)  the case that this one is compared with, if that is not the first; None: with no other
    notes()         what the reader should know

Files anywhere else that look like this can be run by their path.
"""

BENCHMARKS = {
    "local": "amity.bench.local",
    "round": "amity.bench.round",
    "server": "amity.bench.server",
    "stacked": "amity.bench.stacked",
    "apple": "amity.bench.apple",
    "workers": "amity.bench.workers",
    "growth": "amity.bench.growth",
    "cluster": "amity.bench.cluster",
}
