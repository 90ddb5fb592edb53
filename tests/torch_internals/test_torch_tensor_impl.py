"""lazy/trace/storage.cpp, which fills in the protected fields of c10::TensorImpl"""

import pytest
import torch

SHAPES = [(), (0,), (3,), (2, 3), (2, 0, 3), (2, 3, 4), (2, 3, 4, 5), (2, 1, 4, 1), (1, 2, 3, 4, 5)]
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def facts(t):
    return {
        "sizes": t.size(),
        "strides": t.stride(),
        "numel": t.numel(),
        "contiguous": t.is_contiguous(),
        "channels last": t.dim() in FORMATS and t.is_contiguous(memory_format=FORMATS[t.dim()]),
        "dense": torch.ops.aten.is_non_overlapping_and_dense(t),
        "format of its like": torch.empty_like(t).stride(),
        "version": t._version,
    }


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_its_fields_say_what_torch_would_have_said(device, shape):
    x = torch.ones(shape)
    assert facts(x.to(device) + 1) == facts(x + 1), (
        "c10::TensorImpl must begin as contiguous and dense, and derive nothing from sizes and "
        "strides but what refresh_contiguous does: LazyTensor::set_row_major writes "
        "these fields directly"
    )
