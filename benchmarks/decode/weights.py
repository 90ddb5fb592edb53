"""Linear layers with weights of few bits, and how many bytes of them a token reads."""

import warnings
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

GROUP = 64  # weights of int4 that have a scale


class Int8Linear(nn.Module):
    """Weights of int8 and a scale for each row, multiplied as torchao does."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        scale = linear.weight.abs().amax(1) / 127
        self.register_buffer("weight", (linear.weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.linear(x, self.weight.to(x.dtype)) * self.scale
        return y if self.bias is None else y + self.bias


class Int4Linear(nn.Module):
    """Weights of int4 in torch's own packed form for the CPU, with a scale and a zero a group."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        rows, depth = linear.weight.shape
        groups = linear.weight.reshape(rows, depth // GROUP, GROUP)
        low, high = groups.amin(2), groups.amax(2)
        scale = (high - low) / 15
        numbers = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15)
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(
            numbers.reshape(rows, depth).to(torch.int32), 1
        )
        self.register_buffer("weight", packed)
        self.register_buffer(
            "scales", torch.stack([scale, low + 8 * scale], 2).transpose(0, 1).contiguous()
        )
        self.rows, self.bias = rows, linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.ops.aten._weight_int4pack_mm_for_cpu(
            x.reshape(-1, x.shape[-1]), self.weight, GROUP, self.scales
        ).view(*x.shape[:-1], self.rows)
        return y if self.bias is None else y + self.bias


def replace_linears(model: nn.Module, by: Callable[[nn.Linear], nn.Module]) -> nn.Module:
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, by(child))
        else:
            replace_linears(child, by)
    return model


def dynamic(model: nn.Module) -> nn.Module:
    from torch.ao.quantization import quantize_dynamic

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # torch moves it to a library of its own
        return quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)


# How each kind of weights is made of a model in float32.
KINDS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "float32": lambda model: model,
    "bfloat16": lambda model: model.to(torch.bfloat16),
    "int8": lambda model: replace_linears(model, Int8Linear),
    "int4": lambda model: replace_linears(model, Int4Linear),
    "dynamic int8": dynamic,
}


def bytes_read(model: nn.Module) -> int:
    """Of all weights but the embeddings', of which a token reads a row."""
    total = 0
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            continue
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        total += sum(tensor.numel() * tensor.element_size() for tensor in own)
        # The layer and the module that keeps its weights both have them.
        if isinstance(getattr(module, "_packed_params", None), nn.Module):
            weight, bias = module._weight_bias()
            scales = (
                weight.q_per_channel_scales()
                if weight.qscheme() == torch.per_channel_affine
                else []
            )
            total += weight.numel() + 4 * (len(scales) + (0 if bias is None else bias.numel()))
    return total
