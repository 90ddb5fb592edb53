"""backend/python/torch_lazuli/torch_internals/printing.py"""

import torch


def test_numbers_are_printed_by_one_function(spy):
    spy(torch._tensor_str, "_tensor_str", result="some numbers")
    assert "some numbers" in repr(torch.ones(2)), (
        "repr of a tensor must come from torch._tensor_str._tensor_str(self, indent)"
    )
