"""How each engine takes a model: a function of batches, in float32 on some threads of the CPU."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy
import torch

Arrays = list[numpy.ndarray]
Run = Callable[[Arrays], numpy.ndarray]


class Positional(torch.nn.Module):
    """A module whose operands come in an order, as exporters want them."""

    def __init__(self, module: torch.nn.Module, names: list[str]):
        super().__init__()
        self.module, self.names = module, names

    def forward(self, *operands: torch.Tensor) -> torch.Tensor:
        return self.module(**dict(zip(self.names, operands, strict=True)))


def openvino(model: torch.nn.Module, operands: tuple[torch.Tensor, ...], threads: int) -> Run:
    import openvino as ov

    converted = ov.convert_model(torch.export.export(model, operands))
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = ov.Core().compile_model(converted, "CPU", settings).create_infer_request()

    def run(arrays: Arrays) -> numpy.ndarray:
        request.infer(arrays, share_inputs=True)
        return request.get_output_tensor(0).data.copy()  # the next run overwrites it

    return run


def onnxruntime(model: torch.nn.Module, operands: tuple[torch.Tensor, ...], threads: int) -> Run:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    # Its threads do not spin while it is another arm's turn.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.onnx")
        torch.onnx.export(model, operands, file, dynamo=True, verbose=False)
        session = ort.InferenceSession(os.fspath(file), options, ["CPUExecutionProvider"])
    names = [operand.name for operand in session.get_inputs()]
    return lambda arrays: session.run(None, dict(zip(names, arrays, strict=True)))[0]


ENGINES = {"openvino": openvino, "onnxruntime": onnxruntime}
