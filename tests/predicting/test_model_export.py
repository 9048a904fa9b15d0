"""Exported models say what ours say, wherever they are run."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch
from cli.commands import Amity, refused, worked
from safetensors import safe_open
from torch import nn

import amity as package
from amity.errors import InputError
from amity.learn.task import Task
from amity.models import make
from amity.predicting import onnx as onnx_files
from amity.predicting.export import export
from amity.predicting.onnx import export_onnx
from amity.predicting.program import NotEqual, check_equal, program_of
from amity.record.contents import ModelFacts

MODELS = {
    "mlr": ((5,), 3),
    "mlp": ((1, 8, 8), 10),
    "cnn": ((1, 16, 16), 4),
    "cnn-apple": ((3, 16, 16), 4),
    "resnet18": ((3, 8, 8), 2),
    "cnn1d": ((3, 32), 4),
    "quantities": ((5,), 0),
}


def program(name: str) -> tuple[ModelFacts, nn.Module]:
    """Return a fresh model, and what is known of it."""
    shape, classes = MODELS[name]
    listed = "mlr" if name == "quantities" else name
    task = Task(make(listed, shape, classes or 1), shape, classes)
    facts = ModelFacts(
        silo="north",
        method="fedavg",
        model=listed,
        round=1,
        shape=list(shape),
        labels=[str(place) for place in range(classes)] if classes else None,
        features=None,
        pixels=True,
        scale=[40.0, 10.0],
        seen=[-1.0, 1.0],
    )
    return facts, program_of(facts, task, task.init(torch.Generator().manual_seed(1)))


QUICK = ("cnn", "quantities")
EACH = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in MODELS]


@pytest.mark.parametrize("name", EACH)
def test_onnxruntime_says_what_the_model_says(name: str, tmp_path: Path) -> None:
    runtime, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    facts, ours = program(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch's remarks on its own future are kept quiet
        said = export_onnx(facts, ours, '{"silo": "north"}', tmp_path / "m.onnx")
    assert "opset 20" in said and "onnxruntime says the same" in said
    file = onnx.load(tmp_path / "m.onnx")
    assert [one.version for one in file.opset_import if one.domain == ""] == [20]
    assert {one.key: one.value for one in file.metadata_props} == {"amity": '{"silo": "north"}'}
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    x = torch.randn(7, *facts["shape"], generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        wanted = ours(x)
    (found,) = session.run(None, {"x": x.numpy()})
    assert torch.allclose(torch.from_numpy(found), wanted, atol=1e-5 * max(1.0, wanted.abs().max().item()))
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_a_file_that_says_something_else_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    facts, ours = program("mlr")
    _, other = program("mlr")
    with torch.no_grad():
        other.get_parameter("0.1.bias").add_(torch.tensor([1e-3, 0.0, 0.0]))
    made = onnx_files._exported(other, torch.zeros(2, 5), "probabilities")
    monkeypatch.setattr(onnx_files, "_exported", lambda *what: made)
    with pytest.raises(NotEqual, match="nothing was written"):
        export_onnx(facts, ours, "{}", tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_how_far_is_too_far() -> None:
    ours = torch.tensor([[0.5, 0.5]])
    assert check_equal(ours + 9e-6, ours, "x") < 1e-5
    for wrong in (ours + 2e-5, ours * torch.nan, ours[:, :1]):
        with pytest.raises(NotEqual):
            check_equal(wrong, ours, "x")
    assert check_equal(1000 * ours + 4e-3, 1000 * ours, "x") < 1e-5  # large quantities have fewer digits


def test_without_the_packages_it_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_files, "NEEDED", ("onnx", "no_such_package"))
    with pytest.raises(InputError, match=r"no_such_package is not there: pip install 'amity\[onnx\]'"):
        export_onnx(*program("mlr"), "{}", tmp_path / "m.onnx")


@pytest.mark.parametrize("which", ["clinics", "quantities"])
def test_a_torch_program_runs_without_amity(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    result = package.read_run(request.getfixturevalue(which))
    done = export(result, "north", "torch", tmp_path / "north.pt2")
    known = {"amity.json": ""}
    module = torch.export.load(done.path, extra_files=known).module()
    x = torch.tensor([[0.5, 1.0], [-2.0, 0.1], [0.0, 0.0]])
    found = result.predict("north", x)
    wanted = found.values if found.probabilities is None else found.probabilities
    for count in (1, 3):
        assert torch.allclose(
            module(x[:count]).squeeze(1).double(),
            torch.as_tensor(wanted, dtype=torch.float64)[:count],
            rtol=1e-5,
            atol=1e-5,
        )
    facts = json.loads(known["amity.json"])
    assert facts["features"] == ["pressure", "sugar"] and "seen" not in facts


def test_weights_with_what_they_take(amity: Amity, clinics: Path, tmp_path: Path) -> None:
    worked(amity("export", clinics, "--silo", "north", "--to", "safetensors"))
    with safe_open(tmp_path / "north.safetensors", "pt") as file:
        facts = json.loads(file.metadata()["amity"])
        assert facts["labels"] == ["ill", "well"] and facts["features"] == ["pressure", "sugar"]
        wanted = package.read_run(clinics).model("north").state_dict()
        assert all(torch.equal(file.get_tensor(key), wanted[key]) for key in wanted)


def test_what_cannot_be_exported_is_one_line(amity: Amity, clinics: Path, tmp_path: Path) -> None:
    words = ("export", clinics, "--silo", "north", "--to")
    refused(amity(*words, "pickle"), "--to must be one of safetensors, torch, onnx, card, got 'pickle'")
    refused(amity(*words, "onnx", "--out", "m.pt"), "--out must end in .onnx", "name it m.onnx")
    refused(amity(*words, "safetensors", "--out", clinics / "models" / "north.safetensors"), "the run's own directory")
    refused(amity(*words, "torch", "--out", "no/such/m.pt2"), "cannot write no/such/m.pt2")
    refused(amity("export", clinics, "--silo", "nord", "--to", "card"), "no silo is called 'nord'")
    assert list(tmp_path.glob("*.*")) == []
