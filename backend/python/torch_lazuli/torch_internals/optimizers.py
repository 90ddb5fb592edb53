"""Which operators an optimizer's step takes, and where it ends.

Torch's optimizers choose by the device's name, from lists in torch.
"""

import functools
import sys

import torch
from torch.optim import adam, optimizer, sgd, swa_utils
from torch.optim.optimizer import register_optimizer_step_post_hook

from torch_lazuli.devices import TYPE

# What torch.Tensor.device is where a program was not taken over: it costs less. A comparison of
# devices costs less than `.type`, which makes a string.
_device_of = torch._C.TensorBase.device.__get__


def step_adam_in_one_call() -> None:
    """Takes Adam's fused operator where torch takes one operator after the other over lists.

    The graph is the same in the end; recording it costs a fraction, and so does Python, which
    otherwise computes lists of bias corrections.
    """
    original = adam._multi_tensor_adam
    own = _own()

    def fits(
        params,
        *,
        lr,
        beta1,
        beta2,
        grad_scale,
        found_inf,
        capturable,
        differentiable,
        has_complex,
        **_,
    ):
        return (
            params
            and all(isinstance(number, float | int) for number in (lr, beta1, beta2))
            and grad_scale is found_inf is None
            and not (capturable or differentiable or has_complex)
            and all(_device_of(p) == own and p.dtype == params[0].dtype for p in params)
        )

    def in_one_call(*lists, capturable, differentiable, has_complex, **options):
        torch.ops.lazuli._count_steps(lists[-1])
        decoupled = options.pop("decoupled_weight_decay")
        (torch._fused_adamw_ if decoupled else torch._fused_adam_)(*lists, **options)
        parameters, _, means, squares, largest, _ = lists
        decays = decoupled and options["weight_decay"] != 0
        writes = (parameters, 1 + decays), (means, 1), (squares, 2), (largest, 1)
        # Of tensors of other classes, such as shares of distributed ones, their own counters.
        with torch._C._DisableTorchDispatch():
            for written, times in writes:
                if written:
                    torch.ops.lazuli._count_writes(written, times)

    @functools.wraps(original)
    def multi_tensor_adam(*lists, **options):
        fused = len(lists) == 6 and fits(lists[0], **options)
        return (in_one_call if fused else original)(*lists, **options)

    adam._multi_tensor_adam = multi_tensor_adam


def choose_lists_at_less_cost() -> None:
    """Whether a step takes operators over lists: torch asks each parameter's device for its type.

    The module of each of torch's optimizers has the function by its name.
    """
    original = optimizer._default_to_fused_or_foreach
    types = tuple(optimizer._foreach_supported_types)
    own = _own()

    @functools.wraps(original)
    def default_to_fused_or_foreach(params, differentiable, use_fused=False):
        usual = params and not (differentiable or use_fused or torch.compiler.is_compiling())
        if usual and all(type(p) in types and _device_of(p) == own for p in params):
            return False, TYPE in optimizer._get_foreach_kernels_supported_devices()
        return original(params, differentiable, use_fused)

    name = original.__name__
    for module in [sys.modules[m] for m in sys.modules if m.startswith("torch.optim.")]:
        if getattr(module, name, None) is original:
            setattr(module, name, default_to_fused_or_foreach)


def keep_gradients_of_nesterov() -> None:
    """Steps on copies of the gradients where torch's SGD over lists would write into them.

    With nesterov it adds the momentum to `p.grad`, and one tensor after the other, as on the CPU,
    it does not. Who asks for lists by `foreach=True` gets that on the CPU, too.
    """
    original = sgd.sgd

    @functools.wraps(original)
    def step(parameters, gradients, *rest, **options):
        by_default = options.get("foreach") is options.get("fused") is None
        ours = parameters and _device_of(parameters[0]).type == TYPE
        if ours and by_default and options.get("nesterov") and not _takes_lists_below():
            gradients = [g.clone() for g in gradients]
        return original(parameters, gradients, *rest, **options)

    sgd.sgd = step


def _takes_lists_below() -> bool:
    """Whether torch's optimizers take operators over lists on the backing device."""
    return torch.ops.lazuli._backing().type in optimizer._get_foreach_kernels_supported_devices()


def step_as_eager() -> None:
    """Takes operators over lists where torch takes them for the backing device: not on the CPU."""
    _ask_the_backing_device(optimizer)


def average_as_eager() -> None:
    """Averages weights over lists where torch does for the backing device.

    There the share of the new weights is a number of float32, in float64 too, which has to be read.
    """
    _ask_the_backing_device(swa_utils)


def _ask_the_backing_device(module) -> None:
    original = optimizer._get_foreach_kernels_supported_devices

    @functools.wraps(original)
    def supported_devices() -> list[str]:
        backing = torch.ops.lazuli._backing().type
        return [name for name in original() if name != TYPE or backing in original()]

    module._get_foreach_kernels_supported_devices = supported_devices


def know_that_nothing_is_captured() -> None:
    """Spares an optimizer's step the question whether the accelerator captures a graph.

    Torch asks since 2.15, at each step, on the CPU too; it would be the device's first use.
    """
    original = getattr(optimizer.Optimizer, "_accelerator_graph_capture_health_check", None)
    if original is None:
        return
    current_accelerator = torch.accelerator.current_accelerator  # not what a take-over says

    @functools.wraps(original)
    def check(self) -> None:
        accelerator = current_accelerator()
        ours = accelerator is not None and accelerator.type == TYPE
        # Torch warns of steps that could be captured and are not.
        if (
            torch.compiler.is_compiling()
            or not ours
            or any(group.get("capturable") for group in self.param_groups)
        ):
            original(self)

    optimizer.Optimizer._accelerator_graph_capture_health_check = check


def end_traces_after_steps() -> None:
    """Ends the trace after an optimizer's step, so that a training loop repeats one trace."""
    own = _own()

    def end_step(optimizer: torch.optim.Optimizer, args, kwargs) -> None:
        for group in optimizer.param_groups:
            parameters = group["params"]
            if parameters and _device_of(parameters[0]) == own:
                torch.ops.lazuli._step_end()
                return

    register_optimizer_step_post_hook(end_step)


def _own() -> torch.device:
    return torch.device(TYPE, 0)
