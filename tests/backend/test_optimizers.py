"""Optimizers, plain, foreach and fused: five steps give what they give on cpu."""

import copy

import pytest
import torch
from differential import assert_same, normal

CASES = {
    "SGD": {"lr": 0.1},
    "SGD momentum": {"lr": 0.1, "momentum": 0.9},
    "SGD damped": {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "maximize": True},
    "SGD nesterov": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "Adam": {"lr": 0.01},
    "Adam decay": {"lr": 0.01, "weight_decay": 0.1},
    "Adam amsgrad": {"lr": 0.01, "amsgrad": True},
    "AdamW amsgrad": {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"lr": 0.01},
    "AdamW maximize": {"lr": 0.01, "maximize": True, "weight_decay": 0.3},
    "RMSprop": {"lr": 0.01, "momentum": 0.5, "centered": True},
    "Adagrad": {"lr": 0.1},
    "Adagrad decay": {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "maximize": True},
    "Adadelta": {"lr": 1.0},
    "Adamax": {"lr": 0.01},
    "NAdam": {"lr": 0.01},
    "RAdam": {"lr": 0.01},
    "Rprop": {"lr": 0.01},
    "ASGD": {"lr": 0.01},
    "Adafactor": {"lr": 0.1},
    "LBFGS": {"lr": 0.1, "max_iter": 4},
}
FUSED = [name for name in CASES if name.split()[0] in ("SGD", "Adam", "AdamW", "Adagrad")]
FOREACH = [name for name in CASES if name != "LBFGS"]
VARIANTS = (
    [(name, {}) for name in CASES]
    + [(name, {"foreach": True}) for name in FOREACH]
    + [(name, {"foreach": False}) for name in FOREACH]
    + [(name, {"fused": True}) for name in FUSED]
)


def five_steps(name, options, device):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    net.to(device)
    optimizer = getattr(torch.optim, name.split()[0])(net.parameters(), **CASES[name], **options)
    x, losses = normal(6, 4, device=device), []

    def closure():
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        losses.append(loss.detach())
        return loss

    for _ in range(5):
        optimizer.step(closure)
    return losses, list(net.parameters()), len(optimizer.state)


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=str)
def test_five_steps(name, options):
    assert_same(lambda device: five_steps(name, options, device), rtol=1e-4, atol=1e-5)


KINDS = [name for name in CASES if name != "LBFGS"] + ["SGD nesterov alone"]


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"foreach": False}], ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_gradients_after_a_step(name, options):
    """They are as backward left them, unless torch itself writes into them on the CPU, too."""
    case = CASES.get(name, {"lr": 0.1, "momentum": 0.9, "nesterov": True})

    def two_steps(device):
        p = normal(3, 4, device=device, grad=True)
        optimizer = getattr(torch.optim, name.split()[0])([p], **case, **options)
        p.square().sum().backward()
        found = []
        for _ in range(2):
            optimizer.step()
            found += [p.grad.clone(), p.detach().clone(), p.grad._version]
        return found

    assert_same(two_steps, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"foreach": False}], ids=str)
def test_a_learning_rate_that_changes(options):
    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 3).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, **options)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
        for _ in range(5):
            optimizer.zero_grad()
            net(normal(6, 4, device=device)).pow(2).mean().backward()
            optimizer.step()
            schedule.step()
        return list(net.parameters()), schedule.get_last_lr()

    assert_same(train, rtol=1e-4, atol=1e-5)


def test_a_learning_rate_that_is_a_tensor():
    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 3).to(device)
        optimizer = torch.optim.Adam(
            net.parameters(), lr=torch.tensor(0.1).to(device), capturable=device != "cpu"
        )
        for _ in range(3):
            optimizer.zero_grad()
            net(normal(6, 4, device=device)).pow(2).mean().backward()
            optimizer.step()
        return list(net.parameters())

    assert_same(train, rtol=1e-4, atol=1e-5)


def test_parameter_groups():
    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 3).to(device)
        optimizer = torch.optim.SGD(
            [{"params": [net.weight], "lr": 0.5}, {"params": [net.bias], "weight_decay": 0.1}],
            lr=0.1,
        )
        for _ in range(3):
            optimizer.zero_grad()
            net(normal(6, 4, device=device)).pow(2).mean().backward()
            optimizer.step()
        return list(net.parameters())

    assert_same(train)


def test_parameters_without_gradients():
    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
        net[0](normal(6, 4, device=device)).sum().backward()
        optimizer.step()
        return list(net.parameters())

    assert_same(train, rtol=1e-4, atol=1e-5)


def test_clipping_between_backward_and_step():
    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 3).to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        norms = []
        for _ in range(3):
            optimizer.zero_grad()
            (net(normal(6, 4, device=device)) * 10).pow(2).mean().backward()
            norms.append(torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0))
            torch.nn.utils.clip_grad_value_(net.parameters(), 0.2)
            optimizer.step()
        return norms, list(net.parameters())

    assert_same(train, rtol=1e-5, atol=1e-5)


def test_state_moves_with_the_model():
    """A state_dict of a run on the host goes on on the device."""
    torch.manual_seed(0)
    host = torch.nn.Linear(4, 3)
    x = torch.randn(6, 4)
    host_optimizer = torch.optim.Adam(host.parameters(), lr=0.1)
    host(x).pow(2).mean().backward()
    host_optimizer.step()
    device = copy.deepcopy(host).to("lazuli")
    device_optimizer = torch.optim.Adam(device.parameters(), lr=0.1)
    device_optimizer.load_state_dict(copy.deepcopy(host_optimizer.state_dict()))
    assert device_optimizer.state[device.weight]["exp_avg"].device.type == "lazuli"
    for net, optimizer in ((host, host_optimizer), (device, device_optimizer)):
        optimizer.zero_grad()
        net(x.to(net.weight.device)).pow(2).mean().backward()
        optimizer.step()
    torch.testing.assert_close(device.weight.cpu(), host.weight, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_averaged_weights(device, dtype):
    def run(device):
        net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).to(device, dtype)
        average = torch.optim.swa_utils.AveragedModel(net, use_buffers=True)
        for _ in range(4):
            net(normal(5, 4, device=device, dtype=dtype)).sum().backward()
            with torch.no_grad():
                net[0].weight.sub_(normal(3, 4, device=device, dtype=dtype))
            average.update_parameters(net)
        return list(average.state_dict().values())

    tolerance = 1e-5 if dtype == torch.float32 else 1e-13
    assert_same(run, rtol=tolerance, atol=tolerance)
