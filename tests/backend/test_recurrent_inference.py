"""LSTM and GRU where no gradient is wanted: rows that go through the steps."""

import pytest
import torch
from differential import assert_same, normal
from torch import nn

NETWORKS = {
    "one layer": {},
    "two layers": {"num_layers": 2},
    "both ways": {"bidirectional": True},
    "two layers both ways": {"num_layers": 2, "bidirectional": True},
    "batch first": {"batch_first": True, "num_layers": 2},
    "no biases": {"bias": False},
}
SIZES = {"one sequence": (9, 1, 12), "a batch": (7, 5, 12), "one step": (1, 3, 12)}


def external_calls():
    return torch.lazuli.metrics()["external_calls"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU], ids=lambda c: c.__name__)
def test_results(cell, network, size):
    def run(device):
        torch.manual_seed(0)
        net = cell(12, 20, **NETWORKS[network]).to(device).eval()
        with torch.no_grad():
            return [net(normal(*SIZES[size], device=device)) for _ in range(7)]

    assert_same(run, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU], ids=lambda c: c.__name__)
def test_states_that_are_given(cell):
    def run(device):
        torch.manual_seed(0)
        net = cell(8, 17, num_layers=2).to(device).eval()
        states = normal(2, 4, 17, device=device), normal(2, 4, 17, device=device)
        given = states if cell is nn.LSTM else states[0]
        with torch.inference_mode():
            for _ in range(3):
                y, given = net(normal(5, 4, 8, device=device), given)
            return y, given

    assert_same(run, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU], ids=lambda c: c.__name__)
def test_sequences_without_a_batch_and_other_types(cell):
    def run(device):
        torch.manual_seed(0)
        net = cell(6, 10).to(device).eval()
        with torch.no_grad():
            alone = net(normal(4, 6, device=device))
            wide = net.double()(normal(4, 2, 6, device=device, dtype=torch.float64))
        return alone, wide

    assert_same(run, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU], ids=lambda c: c.__name__)
def test_gradients_are_still_there(cell):
    """A network that is trained between steps of inference: weights that change are packed anew."""

    def run(device):
        torch.manual_seed(0)
        net = cell(6, 16).to(device)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        results = []
        for _ in range(4):
            net(normal(5, 3, 6, device=device))[0].square().mean().backward()
            optimizer.step()
            with torch.no_grad():
                results.append(net(normal(5, 3, 6, device=device))[0].clone())
        return results

    assert_same(run, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU], ids=lambda c: c.__name__)
def test_no_call_of_the_host(cell):
    net = cell(6, 16, num_layers=2).to("lazuli").eval()
    with torch.no_grad():
        x = normal(5, 3, 6, device="lazuli")
        before = external_calls()
        net(x)[0].cpu()
        assert external_calls() == before


def test_another_length_each_time():
    def run(device):
        torch.manual_seed(0)
        net = nn.LSTM(6, 24, batch_first=True).to(device).eval()
        with torch.no_grad():
            return [net(normal(2, 1 + step % 6, 6, device=device))[1] for step in range(18)]

    assert_same(run, rtol=1e-5, atol=1e-5)


def test_forward_derivatives_are_torchs():
    def run(device):
        torch.manual_seed(0)
        net = nn.LSTM(4, 8).to(device).eval()
        x, direction = normal(3, 2, 4, device=device), normal(3, 2, 4, device=device)
        with torch.no_grad():
            return torch.func.jvp(lambda x: net(x)[0], (x,), (direction,))

    try:
        run("cpu")
    except Exception as error:
        with pytest.raises(type(error)):
            run("lazuli")
    else:
        assert_same(run, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU], ids=lambda c: c.__name__)
def test_tracers_see_the_steps(cell):
    """What a tracer makes of a network gives other results for another input."""
    from torch.fx.experimental.proxy_tensor import make_fx

    net = cell(4, 8).to("lazuli").eval()
    first, second = normal(3, 2, 4, device="lazuli"), normal(3, 2, 4, device="lazuli")
    with torch.no_grad():
        traced = make_fx(lambda x: net(x)[0])(first)
        torch.testing.assert_close(traced(second).cpu(), net(second)[0].cpu())


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU], ids=lambda c: c.__name__)
def test_exported_without_gradients(cell):
    net, x = cell(4, 8).to("lazuli").eval(), normal(3, 2, 4, device="lazuli")
    with torch.no_grad():
        program = torch.export.export(net, (x,)).run_decompositions()
        torch.testing.assert_close(program.module()(x)[0].cpu(), net(x)[0].cpu())


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU], ids=lambda c: c.__name__)
def test_a_state_that_is_negated_lazily(cell):
    def run(device):
        torch.manual_seed(0)
        net = cell(4, 8).to(device).eval()
        h = torch._neg_view(normal(1, 2, 8, device=device))
        given = (h, h) if cell is nn.LSTM else h
        with torch.no_grad():
            return net(normal(3, 2, 4, device=device), given)[0]

    assert_same(run, rtol=1e-5, atol=1e-5)


def test_a_gru_of_batches_first_may_be_written():
    def run(device):
        torch.manual_seed(0)
        net = nn.GRU(4, 8, batch_first=True).to(device).eval()
        with torch.no_grad():
            y, _ = net(normal(2, 3, 4, device=device))
        shift = normal(8, device=device, grad=True)
        y += shift
        y.sum().backward()
        return y, shift.grad

    assert_same(run, rtol=1e-5, atol=1e-5)
