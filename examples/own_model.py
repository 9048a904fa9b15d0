"""Your own model and your own data: three clinics, each with its arrays, each gets its own model."""

import numpy as np
from torch import nn

import amity


def clinic(flip: int, seed: int) -> tuple[np.ndarray, ...]:
    """Stand-in for your data: x_train, y_train, x_test, y_test. Two clinics agree, the third does not."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120, 8)).astype("float32")
    y = (flip * x[:, 0] + x[:, 1] > 0).astype("int64")
    return x[:80], y[:80], x[80:], y[80:]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))


silos = amity.federation({"north": clinic(1, 0), "south": clinic(1, 1), "east": clinic(-1, 2)})
run = amity.Run("heurfedamp", rounds=10, epochs=2, seed=0, settings={"sigma": 25.0})
result = amity.execute(run, silos, model=network)

print(f"mean accuracy {result.bmta:.1f} %", result.accuracy)
print("who helps whom in the last round:", result.weights[10].round(2), sep="\n")
model = result.model("north")  # an ordinary nn.Module
