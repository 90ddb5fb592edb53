"""accelerate in one process: the device, mixed precision, accumulation, checkpoints."""

import os
import subprocess
import sys
import types

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch_lazuli.libraries import accelerate as ours

accelerate = pytest.importorskip("accelerate")
Accelerator = accelerate.Accelerator


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.0), nn.Linear(16, 3))


def batches():
    draw = torch.Generator().manual_seed(2)
    x = torch.randn(48, 8, generator=draw)
    data = torch.utils.data.TensorDataset(x, x[:, 0].gt(0).long())
    return torch.utils.data.DataLoader(data, batch_size=6)


def train(accelerator, net, steps=2, clip=None):
    """Losses of some epochs, and the share of right answers after them."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    net, optimizer, loader = accelerator.prepare(net, optimizer, batches())
    losses = []
    for _ in range(steps):
        for x, y in loader:
            with accelerator.accumulate(net):
                loss = nn.functional.cross_entropy(net(x), y)
                accelerator.backward(loss)
                if clip and accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(net.parameters(), clip)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        hits = [accelerator.gather_for_metrics(net(x).argmax(1) == y) for x, y in loader]
    return losses, torch.cat(hits).float().mean().item()


@pytest.mark.parametrize("way", ["environment", "default device", "take over"])
@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2}], ids=str)
def test_same_losses(name_device, way, options):
    expected = train(Accelerator(cpu=True, **options), network(), clip=0.5)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    net = network()
    name_device(way)
    accelerator = Accelerator(**options)
    assert accelerator.device.type == "lazuli"
    assert_close(train(accelerator, net, clip=0.5), expected, rtol=1e-4, atol=1e-5)
    assert next(net.parameters()).device.type == "lazuli"


def test_nothing_is_named():
    assert Accelerator().device.type == "cpu"


def test_cpu_is_obeyed(name_device):
    name_device("environment")
    assert Accelerator(cpu=True).device.type == "cpu"


def test_another_device_is_named(name_device, monkeypatch):
    name_device("environment", "cpu")
    monkeypatch.delenv("LAZULI_TAKE_OVER", raising=False)
    assert Accelerator().device.type == "cpu"


@pytest.mark.parametrize("order", ["model first", "loader first"])
def test_model_on_the_device_stays_there(order):
    expected, _ = train(Accelerator(), network())
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    net = network().to("lazuli")
    accelerator = Accelerator()
    assert accelerator.device.type == "cpu"
    if order == "loader first":
        loader, net = accelerator.prepare(batches(), net)
        assert next(iter(loader))[0].device.type == "lazuli"
    actual, _ = train(accelerator, net)
    assert accelerator.device.type == "lazuli"
    assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_model_on_the_device_in_one_of_several_unconnected_processes(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    accelerator = Accelerator()
    with pytest.raises(RuntimeError, match="each would train a model of its own"):
        accelerator.prepare(network().to("lazuli"))


@pytest.mark.parametrize("kind", ["FSDP", "DEEPSPEED", "MEGATRON_LM"])
def test_processes_that_share_a_model_are_refused(name_device, monkeypatch, kind):
    name_device("environment")
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv(f"ACCELERATE_USE_{kind}", "true")
    with pytest.raises(ValueError, match=f"lazuli: accelerate's {kind} knows GPUs only"):
        accelerate.PartialState()


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_mixed_precision(name_device, kind):
    expected, _ = train(Accelerator(cpu=True, mixed_precision="bf16"), network())
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    name_device("environment")
    accelerator = Accelerator(mixed_precision=kind)
    actual, _ = train(accelerator, network(), clip=1.0)
    assert (accelerator.scaler is not None) == (kind == "fp16")
    if accelerator.scaler is not None:
        assert accelerator.scaler.is_enabled()
        assert accelerator.scaler.get_scale() > 1
    assert_close(actual, expected, rtol=5e-2, atol=2e-2)


def test_fp16_on_other_devices_is_refused_as_before(name_device):
    name_device("environment", "meta")
    with pytest.raises(ValueError, match="fp16 mixed precision requires a device"):
        Accelerator(mixed_precision="fp16")


def test_checkpoint_and_resume(tmp_path, name_device):
    """With dropout, whose random numbers are the device's."""
    name_device("environment")
    accelerator = Accelerator()
    net = network()
    net[2].p = 0.3
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    net, optimizer = accelerator.prepare(net, optimizer)
    x = torch.randn(6, 8).to("lazuli")

    def step():
        loss = net(x).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    step()
    accelerator.save_state(str(tmp_path))
    expected = [step() for _ in range(3)]
    torch.rand(7, device="lazuli")
    accelerator.load_state(str(tmp_path))
    assert_close([step() for _ in range(3)], expected, rtol=1e-4, atol=1e-6)


def test_checkpoint_of_the_cpu_is_loaded(tmp_path, name_device):
    first = Accelerator(cpu=True)
    net = network()
    first.prepare(net, torch.optim.SGD(net.parameters(), 0.1))
    first.save_state(str(tmp_path))
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    name_device("environment")
    second = Accelerator()
    other = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.0), nn.Linear(16, 3))
    second.prepare(other, torch.optim.SGD(other.parameters(), 0.1))
    second.load_state(str(tmp_path))
    assert_close(other[0].weight.cpu(), net[0].weight)


RESUMED = """
import sys, torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
accelerator.prepare(torch.nn.Linear(2, 2))
folder, states = sys.argv[1:]
accelerator.save_state(folder)
path = folder + "/random_states_0.pkl"
if states == "broken":
    open(path, "wb").write(b"no states")
else:
    torch.save(torch.load(path, weights_only=False) | {"torch_lazuli_manual_seed": [1]}, path)
accelerator.load_state(folder)
print(torch.lazuli.is_initialized())
"""


@pytest.mark.parametrize("states", ["broken", "lazuli's"])
def test_programs_without_the_device_load_what_they_loaded(tmp_path, states):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RESUMED, str(tmp_path), states],
        env={name: value for name, value in os.environ.items() if name != ours.VARIABLE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "False", done.stderr


def test_random_states_that_cannot_be_read(tmp_path, name_device, caplog):
    name_device("environment")
    accelerator = Accelerator()
    net = accelerator.prepare(network())
    accelerator.save_state(str(tmp_path))
    expected = net[0].weight.tolist()
    with torch.no_grad():
        net[0].weight.zero_()
    (tmp_path / "random_states_0.pkl").write_bytes(b"no states")
    with caplog.at_level("INFO", logger="accelerate.checkpointing"):
        accelerator.load_state(str(tmp_path))
    assert net[0].weight.tolist() == expected
    assert "Could not load the random states of lazuli" in caplog.text


def test_a_version_without_a_list_for_fp16_keeps_models_on_the_device():
    class Other:
        def __init__(self):
            self.state = types.SimpleNamespace(device=torch.device("lazuli"))

        def prepare(self, *objects):
            return objects

        prepare_model = prepare

    module = types.SimpleNamespace(Accelerator=Other, get_grad_scaler=lambda: None)
    with pytest.raises(AttributeError, match="no list of the devices that fp16 is for"):
        ours.teach_accelerator(module)
    assert hasattr(Other.prepare, "__wrapped__")
    assert hasattr(Other.prepare_model, "__wrapped__")
