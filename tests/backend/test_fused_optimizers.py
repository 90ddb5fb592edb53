"""Fused optimizers: types, layouts, scaled gradients, and what is not covered."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal

ADAM = {
    "lr": 0.1,
    "beta1": 0.9,
    "beta2": 0.99,
    "weight_decay": 0.1,
    "eps": 1e-8,
    "amsgrad": False,
    "maximize": False,
}
OPTIMIZERS = {
    "Adam": {"amsgrad": True},
    "AdamW": {"weight_decay": 0.1},
    "SGD": {"momentum": 0.9, "nesterov": True},
    "Adagrad": {"lr_decay": 0.1},
}
LAYOUTS = {
    "row-major": lambda device: normal(4, 3, device=device),
    "transposed": lambda device: normal(3, 4, device=device).mT,
    "channels last": lambda device: normal(2, 3, 4, 5, device=device).contiguous(
        memory_format=torch.channels_last
    ),
    "window": lambda device: normal(3, 4, device=device)[1],
    "number": lambda device: normal(device=device),
    "empty": lambda device: normal(0, 3, device=device),
}


def train(name, parameters, steps=4, layout=lambda g: g, **options):
    """The parameters and states after some steps with gradients that are random."""
    options = {"lr": 0.05, "fused": True} | OPTIMIZERS[name] | options
    optimizer = getattr(torch.optim, name)(parameters, **options)
    torch.manual_seed(1)
    for _ in range(steps):
        for p in parameters:
            g = torch.randn(p.shape).to(p.dtype).to(p.device)
            p.grad = layout(torch.empty_like(p).copy_(g))
        optimizer.step()
    states = [{k: v for k, v in optimizer.state[p].items()} for p in parameters]
    return parameters, states, [p._version for p in parameters]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_layouts(name, layout):
    assert_same(
        lambda device: train(name, [LAYOUTS[layout](device).requires_grad_()]),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_gradients_of_another_layout(name):
    """Fused on the CPU takes memory for what it is not, so the judge is the plain optimizer."""

    def compute(device):
        parameters = [normal(4, 3, device=device, grad=True)]
        layout = lambda g: g.mT.contiguous().mT  # noqa: E731
        return train(name, parameters, layout=layout, fused=device != "cpu")[0]

    assert_same(compute, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_types(name, dtype):
    def compute(device):
        options = {"eps": 1e-4} if "Ada" in name else {}
        return train(name, [normal(5, device=device, dtype=dtype, grad=True)], **options)

    tolerance = {torch.float64: 1e-6, torch.bfloat16: 4e-2, torch.float16: 5e-3}[dtype]
    assert_same(compute, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_of_several_types(name):
    def compute(device):
        types = (torch.float32, torch.float64, torch.float32)
        return train(name, [normal(5, device=device, dtype=t, grad=True) for t in types])

    assert_same(compute, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("where", ["cpu", "device"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_learning_rate_that_is_a_tensor(name, where):
    def compute(device):
        lr = torch.tensor(0.05).to(device if where == "device" else "cpu")
        return train(name, [normal(5, device=device, grad=True)], lr=lr)

    assert_same(compute, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_scaler_that_skips_a_step(name):
    def compute(device):
        w = normal(4, device=device, grad=True)
        optimizer = getattr(torch.optim, name)([w], lr=0.1, fused=True, **OPTIMIZERS[name])
        scaler = torch.amp.GradScaler(device, init_scale=64.0, growth_interval=2)
        seen = []
        for step in range(5):
            optimizer.zero_grad()
            loss = (w * normal(4, device=device)).sum()
            scaler.scale(loss * (torch.inf if step == 2 else 1)).backward()
            scaler.step(optimizer)
            scaler.update()
            seen += [w.detach().clone(), scaler.get_scale()]
            if step != 2:
                seen.append(w.grad.clone())
        return seen

    assert_same(compute, rtol=1e-5, atol=1e-6)


def test_the_first_bias_correction_is_exact_to_rounding():
    """1 - 0.999999 in float32 would be off by a tenth."""

    def compute(device):
        options = ADAM | {"beta2": 0.999999, "weight_decay": 0.0}
        p, g, m, v = ([torch.full((3,), x).to(device)] for x in (1.0, 0.5, 0.0, 0.0))
        torch._fused_adam_(p, g, m, v, [], [torch.ones(()).to(device)], **options)
        return p, m, v

    assert_same(compute, rtol=1e-6, atol=0)


def test_learning_rates_and_steps_compile_nothing(counters):
    w = torch.ones(3).to("lazuli").requires_grad_()
    optimizer = torch.optim.AdamW([w], lr=0.1, fused=True)
    compiled = []
    for step in range(4):
        optimizer.param_groups[0]["lr"] = 0.1 / (step + 1)
        w.grad = torch.ones(3).to("lazuli")
        with torch.lazuli.config.patch(tiers="plans"):
            optimizer.step()
            torch.lazuli.synchronize()
        compiled.append(counters()["traces_compiled"])
    assert compiled[1] == compiled[-1]
    assert not counters()["external_calls"]


def test_one_row_for_each_parameter():
    p, g, m, v = ([torch.ones(3).to("lazuli") for _ in range(5)] for _ in range(4))
    steps = [torch.ones(()).to("lazuli") for _ in range(5)]
    torch.lazuli.synchronize()
    torch._fused_adamw_(p, g, m, v, [], steps, **ADAM)
    assert torch.lazuli.dump().count("adam_step") == 5


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a[1].pop(),
        lambda a: a[4].append(a[0][0]),
        lambda a: a[5].pop(),
    ],
)
def test_errors(change):
    def call(device):
        arguments = [[normal(3, device=device) for _ in range(2)] for _ in range(4)]
        arguments += [[], [torch.ones(()).to(device) for _ in range(2)]]
        change(arguments)
        torch._fused_adam_(*arguments, **ADAM)

    assert_same_error(call)
