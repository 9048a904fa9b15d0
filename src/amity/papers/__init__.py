"""The papers' experiments: described in TOML files, run where they are missing, shown beside the papers' numbers.

spec/          an experiment as its file describes it: rows, columns, sizes, outputs
outcome/       a finished run as it is kept: a small JSON file, and its weights
results.py     the outcomes of an experiment
comparison.py  two rows, compared over silos and at equal local work
reproduce.py   what is recorded, and a runner for what is missing
runs.py        the one place that calls `amity.run`
tables/        Markdown and CSV, the paper's value beside ours
figures/       PNG and PDF
"""
