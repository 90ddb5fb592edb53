"""Modules on the device: `to`, parameter identity, state dicts, buffers, hooks of conversion."""

import copy

import pytest
import torch
from differential import assert_same, normal


def test_to_replaces_the_data_of_parameters():
    net = torch.nn.Linear(3, 2)
    weight = net.weight
    moved = net.to("lazuli")
    assert moved is net
    assert net.weight.device.type == "lazuli"
    assert isinstance(net.weight, torch.nn.Parameter)
    assert net.weight is weight
    assert net.weight.is_leaf


def test_an_optimizer_made_before_the_move_goes_on():
    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.to("lazuli")
    before = net.weight.detach().cpu().clone()
    net(torch.ones(1, 3).to("lazuli")).sum().backward()
    optimizer.step()
    torch.testing.assert_close(net.weight.cpu(), before - 0.1)


def test_to_with_swapped_tensors():
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        net = torch.nn.Linear(3, 2)
        weight = net.weight
        net.to("lazuli")
        assert net.weight is weight
        assert net.weight.device.type == "lazuli"
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def test_round_trip():
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    before = {name: t.clone() for name, t in net.state_dict().items()}
    net.to("lazuli").cpu()
    for name, t in net.state_dict().items():
        assert torch.equal(t, before[name])
        assert t.device.type == "cpu"


def test_shortcuts():
    net = torch.nn.Linear(2, 2).lazuli()
    assert net.weight.is_lazuli
    assert net.double().weight.dtype == torch.float64
    assert net.bfloat16().weight.dtype == torch.bfloat16
    assert net.float().to(torch.float16).weight.dtype == torch.float16


def test_gradients_move_along():
    net = torch.nn.Linear(3, 2)
    net(torch.ones(1, 3)).sum().backward()
    net.to("lazuli")
    assert net.weight.grad.device.type == "lazuli"
    net(torch.ones(1, 3).to("lazuli")).sum().backward()
    assert torch.equal(net.weight.grad.cpu(), torch.full((2, 3), 2.0))


def test_load_state_dict():
    def load(device):
        torch.manual_seed(0)
        a, b = torch.nn.Linear(3, 2).to(device), torch.nn.Linear(3, 2).to(device)
        weight = b.weight
        b.load_state_dict(a.state_dict())
        return a.state_dict(), b.state_dict(), b.weight is weight

    assert_same(load)


def test_load_state_dict_from_the_host_and_by_assignment():
    a, b = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2).to("lazuli")
    b.load_state_dict(a.state_dict())
    assert b.weight.device.type == "lazuli"
    assert torch.equal(b.weight.cpu(), a.weight)
    c = torch.nn.Linear(3, 2, device="meta")
    c.load_state_dict(b.state_dict(), assign=True)
    assert c.weight.device.type == "lazuli"


def test_a_state_dict_of_the_wrong_shape():
    from differential import assert_same_error

    def load(device):
        torch.nn.Linear(3, 2).to(device).load_state_dict(torch.nn.Linear(4, 2).state_dict())

    assert_same_error(load, RuntimeError)


def test_from_meta():
    net = torch.nn.Linear(3, 2, device="meta").to_empty(device="lazuli")
    torch.nn.init.ones_(net.weight)
    torch.nn.init.zeros_(net.bias)
    assert net(torch.ones(1, 3, device="lazuli")).tolist() == [[3, 3]]


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_buffers(training):
    def run(device):
        torch.manual_seed(0)
        norm = torch.nn.BatchNorm2d(3).to(device).train(training)
        for _ in range(3):
            y = norm(normal(4, 3, 5, 5, device=device) * 2 + 1)
        return y, norm.state_dict()

    assert_same(run, rtol=1e-4, atol=1e-5)


LAYERS = {
    "Linear": (torch.nn.Linear(6, 3), (4, 6)),
    "Bilinear": (torch.nn.Bilinear(6, 6, 3), None),
    "Conv1d": (torch.nn.Conv1d(3, 4, 3, stride=2), (2, 3, 9)),
    "Conv2d": (torch.nn.Conv2d(4, 6, 3, groups=2, dilation=2), (2, 4, 9, 9)),
    "ConvTranspose2d": (torch.nn.ConvTranspose2d(3, 4, 3, stride=2), (2, 3, 5, 5)),
    "LSTM": (torch.nn.LSTM(6, 5, 2, batch_first=True), (2, 4, 6)),
    "LSTM of two directions": (torch.nn.LSTM(6, 5, bias=False, bidirectional=True), (4, 2, 6)),
    "LSTM with projections": (torch.nn.LSTM(6, 5, proj_size=3), (4, 2, 6)),
    "LSTM of one sequence": (torch.nn.LSTM(6, 5), (4, 6)),
    "GRU": (torch.nn.GRU(6, 5, bidirectional=True), (4, 2, 6)),
    "RNN": (torch.nn.RNN(6, 5), (4, 2, 6)),
    "LSTMCell": (torch.nn.LSTMCell(6, 5), (2, 6)),
    "MultiheadAttention": (torch.nn.MultiheadAttention(8, 2, batch_first=True), None),
    "TransformerEncoderLayer": (
        torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        (2, 5, 8),
    ),
    "TransformerDecoderLayer": (
        torch.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        None,
    ),
    "GroupNorm": (torch.nn.GroupNorm(2, 4), (2, 4, 5, 5)),
    "InstanceNorm2d": (torch.nn.InstanceNorm2d(4, affine=True), (2, 4, 5, 5)),
    "LayerNorm": (torch.nn.LayerNorm((4, 6)), (2, 4, 6)),
    "RMSNorm": (torch.nn.RMSNorm(6), (2, 4, 6)),
    "PReLU": (torch.nn.PReLU(4), (2, 4, 5)),
    "AdaptiveAvgPool2d": (torch.nn.AdaptiveAvgPool2d(3), (2, 4, 7, 7)),
    "MaxPool2d": (torch.nn.MaxPool2d(3, 2, 1), (2, 4, 7, 7)),
    "Upsample": (torch.nn.Upsample(scale_factor=2, mode="bilinear"), (2, 4, 5, 5)),
    "PixelShuffle": (torch.nn.PixelShuffle(2), (2, 4, 5, 5)),
    "Unfold": (torch.nn.Unfold(3), (2, 4, 5, 5)),
    "WeightNorm": (torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(6, 3)), (4, 6)),
    "SpectralNorm": (torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(6, 3)), (4, 6)),
}
TWO_INPUTS = {"Bilinear": [(4, 6)] * 2, "MultiheadAttention": [(2, 5, 8)] * 3,
              "TransformerDecoderLayer": [(2, 5, 8)] * 2}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    import copy

    layer, shape = LAYERS[name]
    shapes = [shape] if shape else TWO_INPUTS[name]

    def train(device):
        net = copy.deepcopy(layer).to(device)
        inputs = [normal(*s, device=device, grad=True) for s in shapes]
        outputs = net(*inputs)
        outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
        flat = [t for o in outputs for t in (o if isinstance(o, tuple) else (o,))]
        sum((t**2).sum() for t in flat if t is not None).backward()
        return flat, [x.grad for x in inputs], [p.grad for p in net.parameters()]

    assert_same(train, ignore=("stride",), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_that_updates_nothing(affine):
    def normalize(device):
        x = normal(4, 3, 5, device=device, grad=True)
        weight, bias = (normal(3, device=device, grad=True) for _ in range(2))
        mean, variance = normal(3, device=device), normal(3, device=device).square()
        parameters = (weight, bias) if affine else (None, None)
        results = torch.ops.aten._batch_norm_no_update(x, *parameters, mean, variance, 0.1, 1e-5)
        if not affine:  # torch has no derivative then
            return list(results), mean, variance
        gradients = torch.autograd.grad(results[0].square().sum(), (x, weight, bias))
        return list(results), list(gradients), mean, variance

    assert_same(normalize)


def test_an_lstm_of_long_sequences():
    """Whose memory is too much for a rehearsal."""
    layer, x = torch.nn.LSTM(64, 8), torch.randn(20, 16_000, 64)
    with torch.no_grad():
        expected, ours = layer(x)[0], copy.deepcopy(layer).to("lazuli")
        x = x.to("lazuli")
        for _ in range(3):
            torch.testing.assert_close(ours(x)[0].cpu(), expected, rtol=1e-4, atol=1e-5)


def test_an_lstm_where_external_calls_are_errors():
    layer, x = torch.nn.LSTM(6, 5), torch.randn(4, 2, 6)
    with torch.lazuli.config.patch(fallback="error"):
        ours = copy.deepcopy(layer).to("lazuli")(x.to("lazuli"))[0].cpu()
    torch.testing.assert_close(ours, layer(x)[0])


def test_an_lstm_is_exported_for_any_batch():
    layer, x = torch.nn.LSTM(6, 5, batch_first=True).to("lazuli"), torch.randn(4, 3, 6).to("lazuli")
    dynamic = ({0: torch.export.Dim.DYNAMIC},)
    exported = torch.export.export(layer, (x,), dynamic_shapes=dynamic).module()
    x = torch.randn(7, 3, 6).to("lazuli")
    torch.testing.assert_close(exported(x)[0].cpu(), layer(x)[0].cpu())
