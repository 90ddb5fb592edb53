"""Quantized tensors and modules: of the device, by way of torch's kernels for the host."""

import copy
import io

import pytest
import torch
import torch.ao.nn.quantized as nnq
import torch.ao.quantization as quantization
from differential import assert_same, assert_same_error, normal

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def per_tensor(*shape, device, dtype=torch.quint8, zero_point=3):
    return torch.quantize_per_tensor(normal(*shape, device=device), 0.05, zero_point, dtype)


def per_channel(*shape, device, axis=0, dtype=torch.qint8):
    scales, zero_points = torch.rand(shape[axis]) + 0.1, torch.arange(shape[axis])
    x = normal(*shape, device=device)
    return torch.quantize_per_channel(x, scales, zero_points, axis, dtype)


def packed(device):
    scales, zero_points = torch.rand(4), torch.rand(4)
    x = normal(4, 5, device=device)
    return torch.quantize_per_channel(x, scales, zero_points, 0, torch.quint4x2)


def told(q):
    """All that a quantized tensor says of itself, its integers first."""
    scheme = q.qscheme()
    if scheme == torch.per_tensor_affine:
        parameters = [q.q_scale(), q.q_zero_point()]
    else:
        scales, zero_points = q.q_per_channel_scales(), q.q_per_channel_zero_points()
        parameters = [scales, zero_points, q.q_per_channel_axis()]
    return [q.int_repr(), q.dtype, q.stride(), str(scheme), *parameters]


def of_device(device, *tensors):
    return [t.device.type == device for t in tensors]


@pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8, torch.qint32])
def test_they_are_the_devices(dtype):
    def compute(device):
        x = per_tensor(2, 3, device=device, dtype=dtype)
        y = per_channel(2, 3, device=device, axis=1, dtype=dtype)
        z = torch.quantize_per_tensor_dynamic(normal(4, device=device), torch.quint8, False)
        e = torch._empty_affine_quantized(
            [2, 3], scale=0.5, zero_point=1, dtype=dtype, device=device
        )
        where = of_device(
            device, x, y, z, e, x.dequantize(), x.int_repr(), y.q_per_channel_scales()
        )
        return where, told(x), told(y), told(z), x.dequantize(), y.dequantize(), e.q_scale()

    assert_same(compute)


def test_of_integers():
    def compute(device):
        x = torch.arange(-6, 6, dtype=torch.int8, device=device).reshape(2, 6)
        q = torch._make_per_tensor_quantized_tensor(x, 0.05, 10)
        scales, zero_points = torch.tensor([0.1, 0.2]), torch.tensor([0, 1])
        c = torch._make_per_channel_quantized_tensor(x, scales, zero_points, 0)
        return of_device(device, q, c), told(q), told(c)

    assert_same(compute)


def test_they_travel():
    def compute(device):
        x, y, z = per_tensor(2, 3, device=device), per_channel(2, 3, device=device), packed(device)
        there = [
            per_tensor(2, 3, device="cpu").to(device),
            per_channel(2, 3, device="cpu").to(device),
        ]
        back = [x.cpu(), y.cpu(), x[:, 1].cpu(), x.t().cpu(), z.cpu()]
        where = of_device("cpu", *back) + of_device(device, *there)
        return where, [told(t)[0] for t in back], [told(t) for t in there], z.cpu().dequantize()

    assert_same(compute)


def test_packed_ones():
    def compute(device):
        z = packed(device)
        return of_device(device, z), told(z), z.dequantize()

    assert_same(compute)


def test_views_share_memory():
    def compute(device):
        x = per_tensor(2, 3, 4, device=device)
        views = [
            x.transpose(0, 1),
            x[:, 1],
            x.view(6, 4),
            x.unsqueeze(1),
            x[:1].squeeze(),
            x.permute(2, 0, 1),
        ]
        before = x._version
        x[0] = normal(3, 4, device=device)
        x[1:].copy_(per_tensor(1, 3, 4, device=device))
        x[1, 1].fill_(0.25)
        return x._version > before, told(x), [told(v) for v in views]

    assert_same(compute)


def test_copies_and_formats():
    def compute(device):
        x = per_tensor(1, 2, 3, 3, device=device)
        y = x.contiguous(memory_format=torch.channels_last)
        copied = per_tensor(1, 2, 3, 3, device=device, zero_point=9).copy_(x)
        clones = [y, y.clone(), y.clone(memory_format=torch.preserve_format), copied]
        resized = x.clone().resize_(2, 3)
        return [told(t) for t in clones], resized.shape, torch.empty_like(y).stride()

    assert_same(compute)


def test_operators():
    def compute(device):
        x, y = per_tensor(2, 3, device=device), per_tensor(2, 3, device=device)
        image = per_tensor(1, 1, 4, 4, device=device)
        results = [
            torch.relu(x),
            torch.cat([x, y]),
            x.max(),
            torch.sort(x).values,
            image.mean((2, 3)),
            torch.nn.functional.max_pool2d(image, 2),
            torch.ops.quantized.add(x, y, 0.1, 2),
            x.clone().relu_(),
        ]
        return of_device(device, *results), [told(r) for r in results], x == y, torch.equal(x, x)

    assert_same(compute)


def test_out_arguments():
    def compute(device):
        x = per_tensor(2, 3, device=device)
        out = torch.empty(0, dtype=torch.uint8, device=device)
        values = per_tensor(4, 3, device=device)
        torch.ops.aten.int_repr.out(x, out=out)
        scales = torch.empty(0, dtype=torch.float64, device=device)
        torch.ops.aten.q_per_channel_scales.out(per_channel(2, 3, device=device), out=scales)
        torch.ops.quantized.add_out(x, x, x.clone())
        torch.cat([x, x], out=values)
        return out, scales, told(values)

    assert_same(compute)


def test_what_torch_refuses():
    assert_same_error(lambda device: per_tensor(2, 3, device=device).to(torch.float32))
    assert_same_error(
        lambda device: torch.ones(2, device=device).copy_(per_tensor(2, device=device))
    )
    assert_same_error(lambda device: per_channel(2, 3, device=device).t())
    assert_same_error(lambda device: per_channel(2, 3, device=device).resize_(3))
    assert_same_error(lambda device: per_tensor(2, device=device).copy_(normal(3, device=device)))
    x = per_tensor(2, 3, device="lazuli")
    for refused in (lambda: x + x, x.zero_):
        with pytest.raises(
            NotImplementedError, match="quantized tensors on lazuli: torch has no such"
        ):
            refused()


def test_printed():
    def text(device):
        shown = repr(
            (per_tensor(2, 3, device=device), per_channel(2, 3, device=device), packed(device))
        )
        return "".join(shown.replace("device='lazuli:0'", "").replace(",", " ").split())

    assert_same(text)


def test_saved_and_deepcopied():
    def compute(device):
        kept = [
            per_tensor(2, 3, device=device),
            per_channel(2, 3, device=device),
            per_tensor(4, 3, device=device)[1:],
        ]
        file = io.BytesIO()
        torch.save(kept, file)
        loaded = torch.load(io.BytesIO(file.getvalue()))
        on_host = torch.load(io.BytesIO(file.getvalue()), map_location="cpu")
        copied = copy.deepcopy(kept)
        where = of_device(device, *loaded, *copied) + of_device("cpu", *on_host)
        return where, [told(t) for t in [*loaded, *copied]], [t.dequantize() for t in on_host]

    assert_same(compute)


def quantized_network(device):
    convolution, linear = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(64, 5)
    model = torch.nn.Sequential(
        quantization.QuantStub(),
        convolution,
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        linear,
        quantization.DeQuantStub(),
    )
    model.eval().qconfig = quantization.get_default_qconfig("fbgemm")
    quantization.prepare(model, inplace=True)
    model(torch.randn(2, 3, 6, 6))
    return quantization.convert(model).to(device)


def test_a_network_of_quantized_modules():
    def compute(device):
        model = quantized_network(device)
        x = normal(2, 3, 6, 6, device=device)
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        expected, again = model(x), quantized_network(device)
        again.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
        return expected, again(x), copy.deepcopy(model)(x)

    assert_same(compute)


def test_calibrated_on_the_device():
    def compute(device):
        model = torch.nn.Sequential(
            quantization.QuantStub(), torch.nn.Linear(4, 5), quantization.DeQuantStub()
        )
        model.eval().qconfig = quantization.get_default_qconfig("fbgemm")
        quantization.prepare(model, inplace=True)
        model.to(device)
        x = normal(3, 4, device=device)
        model(x)
        return quantization.convert(model.cpu()).to(device)(x)

    assert_same(compute)


def test_dynamically_quantized_modules():
    def compute(device):
        layers = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
        recurrent = torch.nn.LSTM(4, 5)
        kinds = {torch.nn.Linear, torch.nn.LSTM}
        layers, recurrent = (
            quantization.quantize_dynamic(m, kinds).to(device) for m in (layers, recurrent)
        )
        return layers(normal(3, 4, device=device)), recurrent(normal(3, 2, 4, device=device))[0]

    assert_same(compute)


def test_linear_with_channels():
    def compute(device):
        layer = nnq.Linear(4, 5)
        layer.set_weight_bias(per_channel(5, 4, device="cpu"), torch.randn(5))
        layer.scale = 0.1
        y = layer.to(device)(per_tensor(3, 4, device=device))
        return of_device(device, y), told(y)

    assert_same(compute)


def test_an_empty_one_lies_beside_its_like():
    def make(device):
        like = per_tensor(2, 3, device=device)
        empty = [torch.empty_quantized((4,), like), torch.empty_quantized([2], qtensor=like)]
        on_host = torch.empty_quantized((4,), like.cpu())
        out = torch.empty_quantized((0,), like)
        torch.ops.aten.quantize_per_tensor.out(
            normal(2, 3, device=device), 0.1, 5, torch.quint8, out=out
        )
        places = of_device(device, *empty, out) + of_device("cpu", on_host)
        return places, [(e.shape, e.q_scale(), e.q_zero_point()) for e in empty], told(out)

    assert_same(make)
