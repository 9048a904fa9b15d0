"""Benchmarks: speed as ratios against baselines measured in the same run, because machines are shared and noisy.

One file per subject, with `cases(quick)`: name -> work, the baseline first; its docstring says what is compared. Work
may return figures of its own, and "seconds" among them replaces the clock's. `GOALS` are what is promised, `NEEDS` the
packages beyond Amity's own. Files anywhere else that look like this can be run by their path.
"""

BENCHMARKS = {
    "local": "amity.bench.local",
    "round": "amity.bench.round",
    "server": "amity.bench.server",
    "apple": "amity.bench.apple",
    "workers": "amity.bench.workers",
    "growth": "amity.bench.growth",
}
