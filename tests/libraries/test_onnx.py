"""torch.onnx: models on the device become the files that they become on the CPU."""

import io
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
from onnx import load_model_from_string
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(Path(__file__).parents[1] / "torch_tools"))
from tool_models import MODELS, make

# Torch's older exporter fails on the CPU too with a layer of a transformer.
CASES = [(n, d) for n in MODELS for d in (True, False) if d or n != "encoder"]


def file_of(name, device, dynamo):
    module, x = make(name, device, False)
    file = io.BytesIO()
    if dynamo:
        torch.onnx.export(module, (x,), dynamo=True, verbose=False).save(file)
    else:
        torch.onnx.export(module, (x,), file, dynamo=False, verbose=False)
    return file.getvalue(), x


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dynamo"), CASES)
def test_files(device, name, dynamo):
    results, operators = [], []
    for place in ("cpu", device):
        file, x = file_of(name, place, dynamo)
        model = load_model_from_string(file)
        operators.append(sorted(node.op_type for node in model.graph.node))
        name_of_input = model.graph.input[0].name
        results.append(ReferenceEvaluator(model).run(None, {name_of_input: x.cpu().numpy()})[0])
    torch.testing.assert_close(*map(torch.from_numpy, results), rtol=1e-4, atol=1e-5)
    if name != "writes":  # a write of a number is a fill on the CPU, and a copy on the device
        assert operators[0] == operators[1]
