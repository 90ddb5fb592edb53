"""backend/python/torch_lazuli/torch_internals/optimizers.py"""

import inspect
import sys

import pytest
import torch
from torch.optim import adam, optimizer, sgd, swa_utils
from versions import TORCH

LISTS = 6
OPTIONS = {
    "grad_scale",
    "found_inf",
    "amsgrad",
    "has_complex",
    "beta1",
    "beta2",
    "lr",
    "weight_decay",
    "eps",
    "maximize",
    "capturable",
    "differentiable",
    "decoupled_weight_decay",
}


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_adam_over_lists_is_one_function(spy, kind):
    calls = spy(adam, "_multi_tensor_adam", result=())
    parameter = torch.ones(2, requires_grad=True)
    parameter.grad = torch.ones(2)
    kind([parameter], foreach=True).step()
    assert len(calls) == 1, "Adam and AdamW must call torch.optim.adam._multi_tensor_adam"
    lists, options = calls[0]
    assert len(lists) == LISTS
    assert set(options) == OPTIONS, (
        "_multi_tensor_adam must take six lists (parameters, gradients, means, squares, largest, "
        "steps) and these options: Lazuli hands them to the fused operator"
    )


def test_the_fused_operator_takes_the_same(device):
    torch.lazuli.init()  # replaces it
    parameters = list(inspect.signature(adam._multi_tensor_adam.__wrapped__).parameters)
    assert parameters[:LISTS] == [
        "params",
        "grads",
        "exp_avgs",
        "exp_avg_sqs",
        "max_exp_avg_sqs",
        "state_steps",
    ]
    handed_on = OPTIONS - {"has_complex", "capturable", "differentiable", "decoupled_weight_decay"}
    for name in ("_fused_adam_", "_fused_adamw_"):
        schema = getattr(torch.ops.aten, name).default._schema
        assert handed_on == {a.name for a in schema.arguments[LISTS:]}, (
            f"{name} must take the options of _multi_tensor_adam, by the same names"
        )


def test_sgd_is_one_function(spy):
    calls = spy(sgd, "sgd")
    parameter = torch.ones(2, requires_grad=True)
    parameter.grad = torch.ones(2)
    torch.optim.SGD([parameter], lr=0.1, momentum=0.9, nesterov=True).step()
    assert len(calls) == 1, "SGD must call torch.optim.sgd.sgd"
    lists, options = calls[0]
    assert lists[1][0] is parameter.grad
    assert {"foreach", "fused", "nesterov"} <= set(options), (
        "sgd must take the parameters, the gradients, and these options by name: Lazuli hands it "
        "copies of the gradients where it would write into them"
    )


def test_one_function_says_which_devices_take_lists(spy):
    calls = [spy(m, "_get_foreach_kernels_supported_devices") for m in (optimizer, swa_utils)]
    parameter = torch.ones(2, requires_grad=True)
    parameter.grad = torch.ones(2)
    torch.optim.SGD([parameter]).step()
    average = torch.optim.swa_utils.AveragedModel(torch.nn.Linear(2, 2))
    for _ in range(2):
        average.update_parameters(torch.nn.Linear(2, 2))
    assert all(calls), (
        "optimizers must ask _get_foreach_kernels_supported_devices, by that name in their module, "
        "which devices take operators over lists: reference mode answers for its own"
    )


@pytest.mark.skipif(TORCH < (2, 15), reason="torch asks no accelerator before 2.15")
def test_a_step_asks_whether_a_graph_is_captured(spy):
    calls = spy(optimizer.Optimizer, "_accelerator_graph_capture_health_check")
    parameter = torch.ones(2, requires_grad=True)
    parameter.grad = torch.ones(2)
    torch.optim.Adam([parameter]).step()
    assert calls, "Adam's step must ask by this name: on the CPU it would be a use of the device"


KINDS = [
    getattr(torch.optim, name)
    for name in ("ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam",
                 "RMSprop", "Rprop", "SGD")
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_optimizer_asks_one_function_for_lists(kind, spy):
    module = sys.modules["torch.optim.adam" if kind is torch.optim.AdamW else kind.__module__]
    calls = spy(module, "_default_to_fused_or_foreach")
    parameter = torch.ones(2, requires_grad=True)
    parameter.grad = torch.ones(2)
    kind([parameter]).step()
    ((given, options),) = calls
    assert given[0] == [parameter], "it must be given the parameters first"
    names = ["params", "differentiable", "use_fused"]
    assert set(options) <= set(names[len(given) :]), "and its other arguments by these names"


def test_the_question_for_lists_has_torchs_answer(device):
    torch.lazuli.init()  # replaces it
    ours = optimizer._default_to_fused_or_foreach
    torchs = ours.__wrapped__

    class Other(torch.Tensor):
        pass

    here = torch.ones(2, device=device)
    parameter = torch.nn.Parameter(here)
    lists = [
        [], [here], [parameter, here], [here, torch.ones(2)], [torch.ones(2)], [here, None],
        [here.as_subclass(Other)], [here.to(torch.complex64)],
    ]  # fmt: skip
    for params in lists:
        for differentiable in (False, True):
            for use_fused in (False, True):
                arguments = (params, differentiable, use_fused)
                assert ours(*arguments) == torchs(*arguments)
    assert ours([here], False) == (False, True)
