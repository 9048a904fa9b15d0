"""Your own model and your own data: four clinics, each with its arrays, each gets its own model."""

import numpy as np
from torch import nn

import amity


def clinic(sign: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Stand-in for your data: x_train, y_train, x_test, y_test. North and south agree, so do east and west."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(400, 8)).astype("float32")
    y = (sign * x[:, 0] + x[:, 1] > 0).astype("int64")
    return x[:40], y[:40], x[40:], y[40:]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))


silos = amity.own_silos({"north": clinic(1, 0), "south": clinic(1, 1), "east": clinic(-1, 2), "west": clinic(-1, 3)})
together = amity.Run("heurfedamp", rounds=20, settings={"sigma": 10.0, "similarity_on": "update"})
result = amity.run(together, silos, model=network)
alone = amity.run(amity.Run("separate", rounds=20), silos, model=network)

print(f"together {result.best:.1f} %, alone {alone.best:.1f} %")
print("who learnt from whom in the last round:", result.weights[20].round(2), sep="\n")
model = result.model("north")  # an ordinary nn.Module
