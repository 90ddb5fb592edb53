"""backend/torch_internals/tensor_hooks.h"""

import pytest
import torch

MARK = 1 << 31

QUESTIONS = {
    "grad_fn": lambda y: y.grad_fn is not None,
    "is_leaf": lambda y: not y.is_leaf,
    "output_nr": lambda y: y.output_nr == 0,
    "next_functions": lambda y: "Mul" in str(torch.special.i1(y).grad_fn.next_functions[0][0]),
}
NEED_A_NODE = {
    "grad_fn": lambda y: y.grad_fn,
    "register_hook": lambda y: y.register_hook(lambda g: g),
    "retain_grad": lambda y: y.retain_grad(),
    "data": lambda y: setattr(y, "data", torch.ones(2, device=y.device)),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_they_answer(ask, device, question):
    y = torch.ones(2, device=device, requires_grad=True) * 2
    assert ask.output_number(y) == MARK
    assert QUESTIONS[question](y), (
        f"torch must ask at::impl::VariableHooksInterface for a tensor's {question}, and not read "
        "AutogradMeta: only the hooks know of a history without a node"
    )


@pytest.mark.parametrize("call", NEED_A_NODE)
def test_they_are_called_before_the_metadata_is_used(ask, device, call):
    y = torch.ones(2, device=device, requires_grad=True) * 2
    assert ask.output_number(y) == MARK
    NEED_A_NODE[call](y)
    assert not ask.output_number(y) & MARK, (
        f"{call} must go through at::impl::VariableHooksInterface: there a tensor gets its node "
        "before torch uses its metadata"
    )
