"""Three silos' data from scikit-learn's digits, each in the form that its owner happens to have.

    north/scans.csv      a table, with a column of its own that is no feature
    south/scans.npz      two arrays
    east/own_data.py     a function of its own, which reads east/scans.txt

Run it once, in the folder where it lies: python make_data.py
"""

import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

HERE = Path(__file__).parent

x, y = load_digits(return_X_y=True)  # [1797, 64] grey values 0 to 16, [1797]
order = np.random.default_rng(0).permutation(len(y))
north, south, east = order[:400], order[400:600], order[600:680]

with (HERE / "north" / "scans.csv").open("w", newline="") as stream:
    rows = csv.writer(stream)
    rows.writerow(["scan", *(f"pixel_{i}" for i in range(64)), "digit"])
    rows.writerows([number, *(x[i] / 16).round(4).tolist(), y[i]] for number, i in enumerate(north))

np.savez(HERE / "south" / "scans.npz", x=(x[south] / 16).astype(np.float32), y=y[south])

np.savetxt(HERE / "east" / "scans.txt", np.column_stack([x[east], y[east]]), fmt="%d")

print("wrote north/scans.csv, south/scans.npz and east/scans.txt")
