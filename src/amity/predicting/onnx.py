"""A model as an ONNX file: exported by torch, tried with onnxruntime, and only then put in its place."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from amity.errors import InputError
from amity.predicting.program import COUNTS, check_equal, inputs_like, quiet_torch
from amity.record.contents import ModelFacts
from amity.record.files import replacing

OPSET = 20
INPUT = "x"
NEEDED = ("onnx", "onnxscript", "onnxruntime")


def export_onnx(facts: ModelFacts, program: nn.Module, notes: str, out: Path) -> str:
    """Write a program as ONNX, for any number of examples at a time; what was checked comes back in words.

    `notes`: what the file says about itself.
    """
    onnx, runtime = _packages()
    name = "quantity" if facts["labels"] is None else "probabilities"
    with replacing(out) as temporary:
        model = _exported(program, inputs_like(facts, 2), name)
        onnx.helper.set_model_props(model, {"amity": notes})
        onnx.checker.check_model(model)
        temporary.write_bytes(model.SerializeToString())
        session = runtime.InferenceSession(str(temporary), providers=["CPUExecutionProvider"])
        far = max(_try(session, program, inputs_like(facts, count), out) for count in COUNTS)
    shape = ", ".join(["n", *map(str, facts["shape"])])
    return f"opset {OPSET}, {INPUT} [{shape}] float32 -> {name}; onnxruntime says the same to {far:.1g}"


def _packages() -> tuple[Any, Any]:
    found = {}
    for name in NEEDED:
        try:
            found[name] = importlib.import_module(name)
        except ImportError:
            todo = "pip install 'amity[onnx]'"
            raise InputError(f"ONNX needs {', '.join(NEEDED)}, {name} is not there: {todo}") from None
    return found["onnx"], found["onnxruntime"]


def _exported(program: nn.Module, example: Tensor, name: str) -> Any:
    """Return the ONNX model that torch's exporter makes."""
    batch = ({0: torch.export.Dim("n")},)
    with quiet_torch():
        try:
            made = torch.onnx.export(
                program,
                (example,),
                dynamo=True,
                input_names=[INPUT],
                output_names=[name],
                dynamic_shapes=batch,
                opset_version=OPSET,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"torch cannot write this model as ONNX ({reason[:200]}): export --to torch") from error
    assert made is not None
    return made.model_proto


def _try(session: Any, program: nn.Module, x: Tensor, out: Path) -> float:
    with torch.no_grad():
        ours = program(x)
    return check_equal(torch.from_numpy(session.run(None, {INPUT: x.numpy()})[0]), ours, str(out))
