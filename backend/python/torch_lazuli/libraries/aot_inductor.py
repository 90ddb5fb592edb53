"""AOTInductor: it says only that Inductor does not support the device."""

import types

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.libraries.imports import replace


def teach(module: types.ModuleType) -> None:
    """Lets it raise NotImplementedError for a program on the device, which says what to do."""

    @replace(module, "aoti_compile_and_package")
    def compile_and_package(original, program, *arguments, **named):
        given = (program.state_dict, program.example_inputs)
        tensors = [t for t in torch.utils._pytree.tree_leaves(given) if isinstance(t, torch.Tensor)]
        if any(t.device.type == TYPE for t in tensors):
            raise NotImplementedError(
                "lazuli: AOTInductor makes no code for the device; export the model on the CPU, or "
                "run the exported program as it is, whose operators the device fuses"
            )
        return original(program, *arguments, **named)
