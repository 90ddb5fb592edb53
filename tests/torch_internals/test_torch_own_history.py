"""backend/torch_internals/own_history.h"""

import pytest
import torch
from versions import name_in_errors

MARK = 1 << 31
SOME = 5


def write_in_place(y, x):
    y.add_(1)


def write_a_view(y, x):
    y[0].add_(1)


def detach(y, x):
    y.detach_()


@pytest.mark.parametrize("write", [write_in_place, write_a_view, detach])
def test_what_gives_a_history_writes_its_output_number(ask, write):
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    ask.set_output_number(y, SOME)
    write(y, x)
    assert ask.output_number(y) == 0, (
        f"torch must set `output_nr_` wherever it sets `grad_fn_` ({write.__name__}): a mark that "
        "stays there would hide the new node"
    )


def test_output_numbers_of_torch_are_small(ask):
    parts = torch.ones(1000, requires_grad=True).unbind()
    assert [ask.output_number(t) for t in parts] == list(range(1000)), (
        "`output_nr_` must be the number of a node's output, and nothing else: its highest bit is "
        "Lazuli's mark"
    )


def test_a_recorded_tensor_has_the_mark(ask, device):
    x = torch.ones(2, device=device, requires_grad=True)
    assert ask.output_number((x * 2).unbind()[1]) == MARK | 1, (
        "AutogradMeta must keep `output_nr_` as its maker set it"
    )


def test_kernels_ask_for_the_forward_gradient_before_they_refuse_to_write(ask, device):
    view = (torch.ones(2, device=device, requires_grad=True) * 2).unbind()[0]
    with pytest.raises(RuntimeError) as error:
        view.add_(1)
    assert name_in_errors("UnbindBackward0") in str(error.value), (
        "torch's in-place kernels must call AutogradMeta::fw_grad before check_inplace: there a "
        "view gets the node that the error names"
    )
    assert not ask.output_number(view) & MARK
