"""backend/torch_internals/dispatch_keys.h"""

import torch
from torch._subclasses import FakeTensorMode
from torch._vmap_internals import _vmap
from torch.utils._python_dispatch import TorchDispatchMode

MARK = 1 << 31


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, device=inner.device)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_who_wraps_a_tensor_shows_by_a_key(ask, device):
    x = torch.ones(3, 2, device=device)
    found = {}

    def look(name):
        def note(t):
            found[name] = not ask.is_plain(t)
            return t.sum()

        return note

    torch.func.vmap(look("torch.func.vmap"))(x)
    torch.func.grad(look("torch.func.grad"))(x)
    torch.func.functionalize(look("functionalize"))(x)
    _vmap(look("vmap of autograd"))(x)
    found["a subclass"] = not ask.is_plain(Wrapper(x))
    found["a fake tensor"] = not ask.is_plain(FakeTensorMode().from_tensor(x))
    found["a conjugate view"] = not ask.is_plain(
        torch.ones(2, dtype=torch.cfloat, device=device).conj()
    )
    for name, shows in found.items():
        assert shows, (
            f"a tensor of {name} must have a dispatch key that a plain tensor has not: else Lazuli "
            "would record it as its own"
        )


def test_plain_tensors_have_no_other_keys(ask, device):
    x = torch.ones(3, 2, device=device, requires_grad=True)
    with torch.inference_mode():
        inference = torch.ones(2, device=device)
    for t in (x, x * 2, x.detach(), x[0], x.data, inference, torch.nn.Parameter(x.detach())):
        assert ask.is_plain(t), (
            "torch must give plain tensors of a device no more keys than those in is_plain: "
            f"{torch._C._dispatch_keys(t)}"
        )


def test_who_takes_part_in_a_call_shows_by_a_key(ask, device):
    x = torch.ones(2, device=device, requires_grad=True)
    assert ask.output_number(x * 2) == MARK, (
        "torch must call a kernel with no more dispatch keys than those in is_alone: else nothing "
        "is recorded without a node"
    )
    with Mode():
        y = x * 2
    assert not ask.output_number(y) & MARK, "a Python mode must show by a key of the call"
