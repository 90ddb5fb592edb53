"""torch.utils.flop_counter: attention, which torch counts by the name of a device's operator."""

import types

import torch


def teach(module: types.ModuleType) -> None:
    """Counts the device's attention as that of other devices."""
    aten, formulas = torch.ops.aten, module.flop_registry
    forward = formulas[aten._scaled_dot_product_flash_attention]
    backward = formulas[aten._scaled_dot_product_flash_attention_backward]
    formulas.setdefault(aten._scaled_dot_product_fused_attention_overrideable, forward)
    formulas.setdefault(aten._scaled_dot_product_fused_attention_overrideable_backward, backward)
