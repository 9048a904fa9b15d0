"""Benchmarks: speed as ratios against baselines measured in the same run, because machines are shared and noisy.

One file per subject, with `cases(quick)`: name -> work, the baseline first; its docstring says what is compared. Work
may return figures of its own, and "seconds" among them replaces the clock's. A file may also have:

    GOALS           what is promised
    NEEDS           packages beyond Amity's own
    baseline(case)  the case that this one is compared with, if that is not the first; None: with no other
    notes()         what the reader should know

Files anywhere else that look like this can be run by their path, and may import from here too. This folder stands
beside the package and is not installed with it: `amity bench` looks for it in the checkout that it runs from.
"""

BENCHMARKS = {
    "local": "benchmarks.local",
    "round": "benchmarks.round",
    "server": "benchmarks.server",
    "stacked": "benchmarks.stacked",
    "apple": "benchmarks.apple_step",
    "workers": "benchmarks.workers",
    "growth": "benchmarks.growth",
    "cluster": "benchmarks.cluster",
    "encrypted": "benchmarks.encrypted",
}
