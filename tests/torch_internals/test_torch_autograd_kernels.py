"""backend/torch_internals/autograd_kernels.h"""

import torch


def kernel(table: str, key: str) -> str:
    return next(line for line in table.splitlines() if line.startswith(key + ":"))[len(key) :]


def test_xlas_autograd_key_has_torchs_own_kernels(device):
    ours = torch._C._dispatch_get_registrations_for_dispatch_key("AutogradPrivateUse1")
    ours = [name for name in ours if name.startswith("aten::")]
    assert len(ours) > 80
    for name in ours:
        table = torch._C._dispatch_dump_table(name)
        assert kernel(table, "AutogradXLA") == kernel(table, "AutogradCPU"), (
            f"torch must have the same kernel for {name} at AutogradXLA as at AutogradCPU: it is "
            "torch's autograd for what Lazuli does not record itself"
        )
        assert "fall" not in kernel(table, "AutogradXLA"), f"{name} has no kernel at AutogradXLA"
