"""backend/torch_internals/engine_warnings.h"""

import warnings

import torch


def test_the_engine_collects_warnings_and_leaves_them_to_us(device):
    x = torch.zeros((), device=device, requires_grad=True)
    y = torch._C._nn._test_warn_in_autograd(x * 2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y.backward()
    assert [str(w.message)[:18] for w in seen] == ["Warn from backward"], (
        "GraphTask::warning_handler_ must collect in `warnings_` what a run warns of, and "
        "execute_with_graph_task must not say it: it would be lost, or said twice"
    )
