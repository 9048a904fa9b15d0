"""The papers' experiments: described in TOML files, run where they are missing, shown beside the papers' numbers.

spec.py        what an experiment is: rows, columns, sizes, outputs
outcome.py     what is kept of a finished run: a small JSON file, and its weights
reproduce.py   runs what is missing, skips what is recorded
tables/        Markdown and CSV, the paper's value beside ours
figures/       PNG and PDF
"""
