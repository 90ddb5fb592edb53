"""backend/torch_internals/replaced_kernels.h"""

import pytest
import torch

if hasattr(torch, "lazuli"):
    torch.lazuli.synchronize()  # a use of the device, which loads the plugin
OPERATORS = [
    name
    for name in torch._C._dispatch_get_all_op_names()
    if name.startswith("c10d::") and "PrivateUse1 (inactive)" in torch._C._dispatch_dump(name)
]


def test_torch_has_collectives_at_the_devices_key():
    if not torch.distributed.is_available():
        pytest.skip("torch has no torch.distributed")
    assert "c10d::allreduce_" in OPERATORS, (
        "torch has no kernels of its own for collectives of PrivateUse1 any more: then nothing is "
        "replaced"
    )


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_latest_kernel_counts(operator, device):
    lines = torch._C._dispatch_dump(operator).splitlines()
    (active,) = (line for line in lines if line.startswith("PrivateUse1:"))
    assert "backend/device/collectives.cpp" in active, (
        "the dispatcher must call the kernel that was registered last"
    )
