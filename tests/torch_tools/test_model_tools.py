"""Torch's tools that change, watch or copy models on the device."""

import copy
import io
import pickle
from functools import partial

import pytest
import torch
from differential import assert_same, normal
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune

CLOSE = {"rtol": 1e-3, "atol": 1e-5}


def net(device):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)


def gradients(module):
    return [p.grad for p in module.parameters()]


def test_packages(tmp_path, device):
    from torch.package import PackageExporter, PackageImporter

    def use(place):
        path = str(tmp_path / place)
        x = normal(2, 4, device=place)
        with PackageExporter(path) as package:
            package.extern("torch.**")
            package.save_pickle("models", "net.pkl", net(place))
            package.save_pickle("models", "x.pkl", x)
        package = PackageImporter(path)
        module, x = (package.load_pickle("models", f"{name}.pkl") for name in ("net", "x"))
        host = package.load_pickle("models", "net.pkl", map_location="cpu")
        assert next(host.parameters()).device.type == "cpu"
        return module(x).detach(), x

    assert_same(use, **CLOSE)


def test_fx():
    from torch.fx import Interpreter, symbolic_trace
    from torch.fx.experimental.optimization import fuse
    from torch.fx.passes.shape_prop import ShapeProp
    from torch.fx.passes.split_module import split_module

    def use(device):
        graph, x = symbolic_trace(net(device)), normal(2, 4, device=device)
        ShapeProp(graph).propagate(x)
        known = [n.meta["tensor_meta"] for n in graph.graph.nodes]
        shapes = [[tuple(m.shape), m.stride, str(m.dtype)] for m in known]
        parts = split_module(graph, None, lambda node: int(node.name == "_2"))
        torch.manual_seed(1)
        layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).to(device).eval()
        image = normal(1, 3, 6, 6, device=device)
        results = Interpreter(graph).run(x), parts(x), pickle.loads(pickle.dumps(graph))(x)
        return shapes, [r.detach() for r in results], fuse(layers)(image).detach()

    assert_same(use, ignore=["stride"], **CLOSE)


def test_checkpoints_that_save_some_operators():
    from torch.utils.checkpoint import (
        CheckpointPolicy,
        checkpoint,
        create_selective_checkpoint_contexts,
    )

    def policy(_, operator, *arguments, **named):
        keeps = operator in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE

    def use(device):
        module, x = net(device), normal(3, 4, device=device, grad=True)
        contexts = partial(create_selective_checkpoint_contexts, policy)
        options = {"use_reentrant": False, "context_fn": contexts}
        checkpoint(lambda x: module(x).sin(), x, **options).sum().backward()
        return x.grad, gradients(module)

    assert_same(use, **CLOSE)


def test_a_checkpoint_that_computes_another_shape(device):
    from torch.utils.checkpoint import CheckpointError, checkpoint

    calls = []

    def layer(x):
        calls.append(1)
        return x.sin().cos() if len(calls) == 1 else x[:1].sin().cos()

    x = torch.ones(2, 4, device=device, requires_grad=True)
    with pytest.raises(CheckpointError, match="different metadata"):
        checkpoint(layer, x, use_reentrant=False).sum().backward()


def test_ensembles_and_gradients_of_each_sample():
    from torch.func import functional_call, grad, stack_module_state, vmap

    def use(device):
        modules = [net(device) for _ in range(3)]
        parameters, buffers = stack_module_state(modules)
        x, y = normal(5, 4, device=device), torch.tensor([0, 1, 1, 0, 1]).to(device)
        base = copy.deepcopy(modules[0]).to("meta")
        run = lambda p, b, x: functional_call(base, (p, b), (x,))  # noqa: E731
        results = vmap(run, (0, 0, None))(parameters, buffers, x)
        results.sum().backward()
        one = {name: p.detach() for name, p in modules[0].named_parameters()}

        def loss(parameters, x, y):
            return F.cross_entropy(functional_call(modules[0], parameters, (x[None],)), y[None])

        samples = vmap(grad(loss), (None, 0, 0))(one, x, y)
        return results.detach(), [p.grad for p in parameters.values()], samples

    assert_same(use, ignore=["stride"], **CLOSE)


@pytest.mark.parametrize("make", ["perceptron", "convolutions", "lstm"])
def test_flops(make):
    from tool_models import make as make_model
    from torch.utils.flop_counter import FlopCounterMode

    def use(device):
        module, x = make_model(make, device)
        with FlopCounterMode(display=False) as counter:
            module(x).sum().backward()
        counts = counter.get_flop_counts()
        return {k: {str(op): n for op, n in v.items()} for k, v in counts.items()}

    assert_same(use)


def test_flops_of_attention(device):
    from torch.utils import flop_counter

    q = normal(2, 2, 4, 8, device=device, grad=True)
    k, v = (normal(2, 2, 6, 8, device=device) for _ in range(2))
    with flop_counter.FlopCounterMode(display=False) as counter:
        F.scaled_dot_product_attention(q, k, v).sum().backward()
    of_a_product = 2 * (2 * 2) * 4 * 6 * 8
    assert counter.get_total_flops() == 2 * of_a_product + 5 * of_a_product  # backward: one again


def test_profiles_with_memory(device, tmp_path):
    from torch.profiler import ProfilerActivity, profile

    module, options = net(device), {"profile_memory": True, "record_shapes": True}
    optimizer = torch.optim.Adam(module.parameters())
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, **options) as found:
        for _ in range(3):
            module(normal(2, 4, device=device)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    if hasattr(found, "export_memory_timeline"):  # torch calls it deprecated
        path = tmp_path / "memory.json"
        found.export_memory_timeline(str(path), device="lazuli:0")
        assert path.stat().st_size > 0
    found.export_chrome_trace(str(tmp_path / "trace.json"))
    assert {"aten::addmm", "Optimizer.step#Adam.step"} <= {e.key for e in found.key_averages()}


def test_saved_tensors_elsewhere():
    def use(device):
        module, x = net(device), normal(2, 4, device=device, grad=True)
        with torch.autograd.graph.save_on_cpu():
            y = (module(x) * x.sum()).sin().sum()
        y.backward()
        sizes = []

        def pack(t):
            sizes.append(list(t.shape))
            return t.cpu()

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t.to(device)):
            y = (module(x) * x.exp().sum()).sin().sum()
        y.backward()
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            a = normal(3, device=device, grad=True)
            b = a.clone()
            c = (b**2).sum()
            b.sin_()
            c.backward()
        return x.grad, gradients(module), sorted(sizes), a.grad

    assert_same(use, **CLOSE)


def test_anomalies():
    def use(device):
        messages = []
        for f in (lambda x: x.sqrt() * 0, lambda x: (x - x) / (x + 1) ** 0.5):
            x = torch.tensor([-1.0]).to(device).requires_grad_()
            with pytest.raises(RuntimeError) as error, torch.autograd.detect_anomaly(True):
                f(x).sum().backward()
            messages.append(str(error.value))
        return messages

    with pytest.warns(UserWarning, match="Anomaly Detection|Error detected"):
        assert_same(use)


PARAMETRIZED = {
    "weight norm": parametrizations.weight_norm,
    "spectral norm": parametrizations.spectral_norm,
    "orthogonal": parametrizations.orthogonal,
    "cayley": lambda m: parametrizations.orthogonal(m, orthogonal_map="cayley"),
}


@pytest.mark.parametrize("name", PARAMETRIZED)
def test_parametrizations(name):
    def use(device):
        torch.manual_seed(1)
        module = PARAMETRIZED[name](nn.Linear(4, 4)).to(device)
        for _ in range(2):
            module(normal(2, 4, device=device)).sin().sum().backward()
        found = gradients(module)
        parametrize.remove_parametrizations(module, "weight")
        return found, module.weight.detach()

    assert_same(use, ignore=["stride"], **CLOSE)


def test_pruning():
    def use(device):
        torch.manual_seed(1)
        module, x = nn.Linear(4, 4).to(device), normal(2, 4, device=device)
        prune.l1_unstructured(module, "weight", 0.3)
        prune.ln_structured(module, "weight", 0.5, 2, 0)
        module(x).sum().backward()
        masks, found = dict(module.named_buffers()), gradients(module)
        prune.remove(module, "weight")
        return masks, found, module.weight.detach()

    assert_same(use, **CLOSE)


def test_averages_of_models():
    from torch.optim import swa_utils

    def use(device):
        results = []
        for options in ({}, {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9)}):
            torch.manual_seed(0)
            module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).to(device)
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            rates = swa_utils.SWALR(optimizer, swa_lr=0.05)
            average = swa_utils.AveragedModel(module, **options)
            for _ in range(3):
                module(normal(6, 4, device=device)).pow(2).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                average.update_parameters(module)
                rates.step()
            swa_utils.update_bn([normal(6, 4, device="cpu")] * 2, average, device=device)
            results.append(average.state_dict())
        return [dict(r) for r in results]

    assert_same(use, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_quantization():
    from torch.ao import quantization
    from torch.ao.quantization import quantize_fx

    def use(device):
        x, image = normal(2, 4, device=device), normal(4, 3, 6, 6, device=device)
        dynamic = quantization.quantize_dynamic(net(device).eval(), {nn.Linear})
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
        mapping = quantization.get_default_qconfig_mapping("fbgemm")
        prepared = quantize_fx.prepare_fx(layers.eval().to(device), mapping, (image,))
        prepared(image)
        return dynamic(x), quantize_fx.convert_fx(prepared)(image)

    assert_same(use, ignore=["requires_grad"], rtol=1e-2, atol=1e-2)


def test_semi_structured_sparsity_says_what_it_is_for(device):
    from torch.sparse import to_sparse_semi_structured

    weights = torch.tensor([0, 0, 1, 1]).tile(64, 16).half().to(device)
    with pytest.raises(RuntimeError, match="lazuli:0 is not supported! Only CUDA"):
        to_sparse_semi_structured(weights)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("place", [None, "cpu", "device"])
def test_files(device, tmp_path, weights_only, mmap, place):
    module, x = net(device), normal(4, 4, device=device)
    module(x).sum().backward()
    optimizer = torch.optim.Adam(module.parameters())
    optimizer.step()
    state = {"m": module.state_dict(), "o": optimizer.state_dict(), "x": x, "row": x[1:]}
    torch.save(state, tmp_path / "file.pt")
    where = device if place == "device" else place
    options = {"weights_only": weights_only, "mmap": mmap, "map_location": where}
    loaded = torch.load(tmp_path / "file.pt", **options)
    assert loaded["x"].device.type == (where or device)
    assert torch.equal(loaded["x"].cpu(), x.cpu())
    loaded["x"].zero_()
    assert (loaded["row"] == 0).all(), "tensors that shared memory must share it again"
    other = net(device)
    other.load_state_dict(loaded["m"])
    again = torch.optim.Adam(other.parameters())
    again.load_state_dict(loaded["o"])
    assert torch.equal(other(x).cpu(), module(x).cpu())
    assert again.state_dict()["state"][0]["exp_avg"].device.type == device


def test_pickles_and_copies():
    def use(device):
        module, x = net(device), normal(4, 4, device=device)
        buffers = []
        data = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
        whole, row = copy.deepcopy((x, x[1]))
        whole.zero_()
        restored = pickle.loads(data, buffers=buffers)
        file = io.BytesIO()
        torch.save(pickle.loads(pickle.dumps(module, protocol=5)), file)
        file.seek(0)
        modules = copy.deepcopy(module), torch.load(file, weights_only=False)
        return restored, row, [m(x).detach() for m in modules]

    assert_same(use, **CLOSE)
