"""Recurrent networks over long sequences: calls of cuDNN, as eager CUDA's are."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn

STEPS, BATCH, FEATURES, SIZE = 70, 4, 10, 16

NETWORKS = {
    "lstm": lambda **given: nn.LSTM(FEATURES, SIZE, **given),
    "gru": lambda **given: nn.GRU(FEATURES, SIZE, **given),
    "tanh": lambda **given: nn.RNN(FEATURES, SIZE, **given),
    "relu": lambda **given: nn.RNN(FEATURES, SIZE, nonlinearity="relu", **given),
    "projections": lambda **given: nn.LSTM(FEATURES, SIZE, proj_size=6, **given),
}
LAYERS = {
    "one": {},
    "two": {"num_layers": 2},
    "both ways": {"num_layers": 2, "bidirectional": True},
    "no bias": {"bias": False},
    "batch first": {"batch_first": True},
}


def external_calls() -> list[str]:
    return list(torch.lazuli.metrics()["external_calls"])


def flat(results: object) -> list[torch.Tensor]:
    if isinstance(results, torch.Tensor):
        return [results]
    if isinstance(results, rnn.PackedSequence):
        return [results.data]
    return [t for result in results for t in flat(result)]


def step(network: nn.Module, x: object, states: object = None) -> list[torch.Tensor]:
    """A step of training: results, and gradients of parameters and of states that are given."""
    results = flat(network(x, states))
    loss = sum(
        (
            r.double()
            * torch.arange(1.0, r.numel() + 1, device=r.device, dtype=torch.double).cos().view_as(r)
        ).sum()
        for r in results
    )
    wanted = [*network.parameters(), *(flat(states) if states is not None else [])]
    return [t.cpu() for t in [*results, *torch.autograd.grad(loss, wanted)]]


def compare(run: Callable[[str], list[torch.Tensor]], **tolerance: float) -> None:
    expected, got = run("cuda"), run("lazuli")
    assert len(expected) == len(got)
    for e, g in zip(expected, got, strict=True):
        assert e.dtype == g.dtype
        torch.testing.assert_close(g, e, **tolerance)


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("network", NETWORKS)
def test_trains_as_eager_does(network: str, layers: str):
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        made = NETWORKS[network](**LAYERS[layers]).to(device)
        x = (
            torch.randn(BATCH, STEPS, FEATURES)
            if made.batch_first
            else torch.randn(STEPS, BATCH, FEATURES)
        )
        return [t for _ in range(3) for t in step(made, x.to(device))]

    torch.lazuli.reset_metrics()
    compare(run)
    assert any(name.startswith("lazuli::recurrent_backward") for name in external_calls())


@pytest.mark.parametrize("network", ["lstm", "gru", "projections"])
def test_states_that_are_given(network: str):
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        made = NETWORKS[network](num_layers=2).to(device)
        x = torch.randn(STEPS, BATCH, FEATURES).to(device)
        out = made.proj_size or SIZE
        states = torch.randn(2, BATCH, out).to(device).requires_grad_()
        if network != "gru":
            states = (states, torch.randn(2, BATCH, SIZE).to(device).requires_grad_())
        return step(made, x, states)

    compare(run)


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("network", ["lstm", "gru", "tanh"])
def test_packed_sequences_of_other_lengths_in_each_step(network: str, both_ways: bool):
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        made = NETWORKS[network](num_layers=2, bidirectional=both_ways).to(device)
        results = []
        for i in range(6):
            lengths = torch.randint(3, 30, (BATCH + i,))
            lengths[0] = 30
            x = torch.randn(BATCH + i, 30, FEATURES).to(device)
            packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            results += step(made, packed)
        return results

    compare(run)


def test_an_optimizer_moves_the_parameters():
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        made = nn.LSTM(FEATURES, SIZE, 2).to(device)
        optimizer = torch.optim.Adam(made.parameters(), lr=0.01)
        x = torch.randn(STEPS, BATCH, FEATURES).to(device)
        losses = []
        for _ in range(8):
            y, _ = made(x)
            loss = (y - x.mean()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return [loss.cpu() for loss in losses] + [p.detach().cpu() for p in made.parameters()]

    compare(run, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_types(dtype: torch.dtype):
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        made = nn.GRU(FEATURES, SIZE).to(device, dtype)
        return step(made, torch.randn(STEPS, BATCH, FEATURES).to(device, dtype))

    loose = {} if dtype == torch.float64 else {"rtol": 0.05, "atol": 0.1}
    compare(run, **loose)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype: torch.dtype):
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        made = nn.LSTM(FEATURES, SIZE).to(device)
        x = torch.randn(STEPS, BATCH, FEATURES).to(device)
        with torch.autocast(device, dtype=dtype):
            y, (h, c) = made(x)
        grads = torch.autograd.grad(y.float().sum(), list(made.parameters()))
        if device == "lazuli":
            assert all(t.dtype == dtype for t in (y, h, c))
        return [t.float().cpu() for t in (y, h, c, *grads)]

    compare(run, rtol=0.05, atol=0.1)  # eager computes in float16, whatever it is asked for


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode: Callable):
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        made = nn.GRU(FEATURES, SIZE, 2).to(device).eval()
        with mode():
            return [
                made(torch.randn(n, BATCH, FEATURES).to(device))[0].cpu()
                for n in (9, 65, 70, 70, 70, 100)
            ]

    compare(run)


def test_a_derivative_in_evaluation():
    """Eager's call of cuDNN has none there, its CPU has."""
    torch.manual_seed(0)
    made = nn.LSTM(FEATURES, SIZE).eval()
    x = torch.randn(STEPS, BATCH, FEATURES)
    expected = step(made, x)
    got = step(made.to("lazuli"), x.to("lazuli"))
    for e, g in zip(expected, got, strict=True):
        torch.testing.assert_close(g, e, rtol=1e-4, atol=1e-4)


def test_dropout_between_layers_comes_from_the_devices_generator():
    torch.manual_seed(0)
    made = nn.LSTM(FEATURES, SIZE, 3, dropout=0.5).to("lazuli")
    x = torch.randn(STEPS, BATCH, FEATURES).to("lazuli")

    def draw(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return made(x)[0].detach().cpu()

    torch.testing.assert_close(draw(1), draw(1), rtol=0, atol=0)
    assert not torch.equal(draw(1), draw(2))
    made.eval()
    torch.testing.assert_close(draw(1), draw(2), rtol=0, atol=0)
    torch.testing.assert_close(draw(1), made.cuda()(x.cpu().cuda())[0].detach().cpu())


def test_no_numbers_are_dropped_at_a_rate_that_drops_none():
    torch.manual_seed(0)
    made = nn.GRU(FEATURES, SIZE, 2, dropout=1e-12).to("lazuli")
    x = torch.randn(STEPS, BATCH, FEATURES)
    torch.testing.assert_close(
        made(x.to("lazuli"))[0].detach().cpu(), made.cuda().eval()(x.cuda())[0].detach().cpu()
    )


def test_the_derivative_of_the_derivative_is_eagers_error():
    made = nn.GRU(FEATURES, SIZE).to("lazuli")
    x = torch.randn(STEPS, BATCH, FEATURES, device="lazuli", requires_grad=True)
    (gx,) = torch.autograd.grad(made(x)[0].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="Double backwards is not supported for CuDNN RNNs"):
        gx.sum().backward()
    with torch.backends.cudnn.flags(enabled=False):
        (gx,) = torch.autograd.grad(made(x)[0].sum(), x, create_graph=True)
        gx.sum().backward()


def test_a_graph_that_is_kept_gives_the_same_gradients_again():
    made = nn.LSTM(FEATURES, SIZE).to("lazuli")
    y = made(torch.randn(STEPS, BATCH, FEATURES, device="lazuli"))[0].sum()
    first = torch.autograd.grad(y, list(made.parameters()), retain_graph=True)
    second = torch.autograd.grad(y, list(made.parameters()))
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a.cpu(), b.cpu(), rtol=0, atol=0)


def test_parameters_that_are_written_between_calls():
    """Where all of them lie side by side is known until then."""

    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        made = nn.GRU(FEATURES, SIZE).to(device)
        x = torch.randn(STEPS, BATCH, FEATURES).to(device)
        results = []
        with torch.no_grad():
            for change in (
                lambda: None,
                lambda: made.weight_hh_l0.mul_(0.5),
                lambda: made.bias_ih_l0.data.add_(1),
                lambda: made.weight_ih_l0[3:5].zero_(),
                lambda: setattr(made, "weight_hh_l0", nn.Parameter(-made.weight_hh_l0)),
                lambda: made.load_state_dict({k: v + 0.1 for k, v in made.state_dict().items()}),
            ):
                change()
                results += [made(x)[0].cpu(), made(x)[0].cpu()]
        return results

    compare(run)


def test_under_torch_func():
    """Eager CUDA fails: flatten_parameters asks a tensor that a transform wraps for its memory."""
    torch.manual_seed(0)
    made = nn.LSTM(FEATURES, SIZE)
    x = torch.randn(STEPS, BATCH, FEATURES)

    def loss(parameters: dict, x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(made, parameters, (x,))[0].square().sum()

    def run(device: str) -> list[torch.Tensor]:
        made.to(device)
        parameters = {k: v.detach() for k, v in made.named_parameters()}
        gradients = torch.func.grad(loss)(parameters, x.to(device))
        return [t.cpu() for t in gradients.values()]

    for expected, got in zip(run("cpu"), run("lazuli"), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_torch_compile():
    torch.manual_seed(0)
    made = nn.LSTM(FEATURES, SIZE).to("lazuli")
    x = torch.randn(STEPS, BATCH, FEATURES, device="lazuli")
    expected = step(made, x)
    got = step(torch.compile(made, backend="lazuli"), x)
    for e, g in zip(expected, got, strict=True):
        torch.testing.assert_close(g, e, rtol=1e-4, atol=1e-4)
