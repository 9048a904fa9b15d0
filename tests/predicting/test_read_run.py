"""A run that is over gives back what it gave when it ended."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from four_silos import OWN, linear, own, quick
from safetensors.torch import load_file
from torch import nn

import amity
from amity.models import MLP
from amity.predicting import outcomes


def test_what_is_read_is_what_was_run(tmp_path: Path) -> None:
    now = amity.run(quick("fedamp"), own(), model=linear, out=tmp_path / "run")
    later = amity.read_run(tmp_path / "run", model=linear)
    x = torch.from_numpy(OWN["east"][2])
    assert later.scores == now.scores and later.summary == now.summary and str(later) == str(now)
    for silo in OWN:
        assert torch.equal(later.model(silo)(x), now.model(silo)(x))
        assert torch.equal(later.cloud(silo)(x), now.cloud(silo)(x))
        assert later.predict(silo, x).values == now.predict(silo, x).values
    assert later.path == tmp_path / "run"
    again = amity.read_run(tmp_path / "run", model=nn.Linear(6, 3))  # a module will do
    assert torch.equal(again.model("east")(x), now.model("east")(x))


def test_a_model_of_ones_own_needs_its_code(tmp_path: Path) -> None:
    amity.run(quick("separate", rounds=1), own(), model=linear, out=tmp_path / "run")
    later = amity.read_run(tmp_path / "run")
    assert set(later.scores) == set(OWN)  # all the rest can be looked at
    with pytest.raises(amity.InputError, match=r"'linear' of north is your own .* amity.read_run\(.*model="):
        later.model("north")
    with pytest.raises(amity.InputError, match="must fit the model"):
        amity.read_run(tmp_path / "run", model=lambda: nn.Linear(6, 3, bias=False)).model("north")
    with pytest.raises(amity.InputError, match="did you mean north"):
        later.predict("nort", [[0.0] * 6])


def test_a_function_with_the_name_of_a_listed_model_is_still_ones_own(tmp_path: Path) -> None:
    def mlr() -> nn.Module:
        return nn.Linear(6, 3)

    amity.run(quick("separate", rounds=1), own(), model=mlr, out=tmp_path / "run")
    with pytest.raises(amity.InputError, match="is your own"):
        amity.read_run(tmp_path / "run").model("north")


def test_what_is_no_run_is_one_line(clinics: Path, tmp_path: Path) -> None:
    with pytest.raises(amity.InputError, match="holds no run"):
        amity.read_run(tmp_path)
    with pytest.raises(amity.InputError, match="holds 1 runs: name one of them, such as .*run"):
        amity.read_run(clinics.parent)


def test_plain_torch_in_three_lines(clinics: Path) -> None:
    module = MLP(shape=(2,), classes=2)
    module.load_state_dict(load_file(clinics / "models" / "north.safetensors"))
    module.eval()
    x = torch.tensor([[0.5, 1.0], [-2.0, 0.1]])
    assert torch.equal(module(x), amity.read_run(clinics).model("north")(x))


def test_the_facts_beside_a_model(clinics: Path, quantities: Path) -> None:
    known = json.loads((clinics / "models" / "north.json").read_text())
    assert known["features"] == ["pressure", "sugar"] and known["labels"] == ["ill", "well"]
    assert (known["label"], known["model"], known["own"], known["shape"]) == ("diagnosis", "mlp", False, [2])
    assert (known["round"], known["method"], known["silo"]) == (2, "heurfedamp", "north")
    of_quantities = json.loads((quantities / "models" / "north.json").read_text())
    zero, unit = of_quantities["scale"]
    assert of_quantities["labels"] is None and 20 < zero < 60 and 5 < unit < 40


def test_probabilities_are_kept_as_long_as_they_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "LIMIT", 400)
    assert [outcomes.kind_of(count) for count in (100, 101, 200, 201)] == [np.float32, np.float16, np.float16, None]


@pytest.mark.parametrize(("limit", "kind"), [(10**8, np.float32), (2 * 4 * 20 * 3, np.float16), (1, None)])
def test_what_models_say_about_test_examples(
    limit: int, kind: type | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "LIMIT", limit)
    result = amity.run(quick("fedavg-ft", rounds=1), own(), model=linear, out=tmp_path / "run")
    for silo, (_, _, x, y) in OWN.items():
        kept = result.record.predictions[silo]
        assert kept["truth"].tolist() == y.tolist()
        assert (kept["predicted"] == y).tolist() == kept["delivered"].tolist()
        if kind is None:
            assert "probabilities" not in kept
            continue
        with torch.no_grad():
            wanted = result.model(silo)(torch.from_numpy(x)).softmax(1).numpy()
        assert kept["probabilities"].dtype == kind and np.allclose(kept["probabilities"], wanted, atol=1e-3)
