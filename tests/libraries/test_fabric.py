"""Lightning's Fabric: `accelerator="lazuli"`, "auto" where lazuli is named, mixed precision."""

import types

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch_lazuli.libraries import lightning as ours

fabric = pytest.importorskip("lightning.fabric")


def train(accelerator, steps=6, **options):
    """The Fabric, the losses, and the type of the outputs."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3))
    x = torch.randn(24, 8)
    data = torch.utils.data.TensorDataset(x, x[:, 0].gt(0).long())
    f = fabric.Fabric(accelerator=accelerator, **options)
    f.launch()
    net, optimizer = f.setup(net, torch.optim.AdamW(net.parameters(), lr=1e-2))
    loader = f.setup_dataloaders(torch.utils.data.DataLoader(data, batch_size=4))
    losses = []
    for x, y in loader:
        with f.autocast():
            inner = net.module[0](x).dtype
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        f.backward(loss)
        f.clip_gradients(net, optimizer, max_norm=1.0)
        optimizer.step()
        losses.append(loss.item())
    return f, losses, inner, net, optimizer


def test_same_losses():
    f, actual, *_ = train("lazuli")
    assert f.device.type == "lazuli"
    assert_close(actual, train("cpu")[1], rtol=1e-4, atol=1e-5)


def test_auto_takes_it_where_it_is_named(name_device):
    assert fabric.Fabric().device.type != "lazuli"
    name_device("environment")
    assert fabric.Fabric().device.type == "lazuli"


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_mixed_precision(precision):
    _, expected, *_ = train("cpu", precision="bf16-mixed")
    f, actual, inner, *_ = train("lazuli", precision=precision)
    assert inner == (torch.bfloat16 if precision == "bf16-mixed" else torch.float16)
    assert (f._precision.scaler is not None) == (precision == "16-mixed")
    assert_close(actual, expected, rtol=5e-2, atol=2e-2)


def test_save_and_load(tmp_path):
    f, _, _, net, optimizer = train("lazuli")
    f.save(tmp_path / "state.ckpt", {"net": net, "optimizer": optimizer, "step": 6})
    g, _, _, other, another = train("lazuli", precision="32-true")
    with torch.no_grad():
        other.module[0].weight.zero_()
    state = {"net": other, "optimizer": another, "step": 0}
    g.load(tmp_path / "state.ckpt", state)
    assert state["step"] == 6
    assert other.module[0].weight.device.type == "lazuli"
    assert_close(other.module[0].weight.cpu(), net.module[0].weight.cpu())


def test_a_model_that_is_moved_away_is_warned_of():
    f = fabric.Fabric(accelerator="cpu")
    with pytest.warns(UserWarning, match="Lightning moves a model from lazuli to cpu"):
        f.setup(nn.Linear(2, 2).to("lazuli"))


@pytest.mark.parametrize("accelerator", ["cpu", "lazuli"])
def test_accelerators_have_no_names(monkeypatch, accelerator):
    """As before Lightning 2.5.6."""
    registered = fabric.accelerators.ACCELERATOR_REGISTRY.get(accelerator)
    for kind in type(registered).__mro__:
        if "name" in vars(kind):
            monkeypatch.delattr(kind, "name")
    assert not hasattr(registered, "name")
    f = fabric.Fabric(accelerator=accelerator, devices=1, precision="bf16-mixed")
    assert f.device.type == f._precision.device == accelerator


@pytest.mark.parametrize("devices", [None, [], 3, [0], ["cpu"]], ids=str)
def test_what_is_not_known_is_left_to_lightning(devices):
    class Connector:
        _num_nodes_flag = 1
        _parallel_devices = devices

        def _choose_strategy(self):
            return "its own"

        _check_and_init_precision = _choose_strategy
        _choose_auto_accelerator = _choose_gpu_accelerator_backend = _choose_strategy

    ours.teach_connector(types.SimpleNamespace(_Connector=Connector))
    assert Connector()._choose_strategy() == "its own"
    assert Connector()._check_and_init_precision() == "its own"


def test_a_version_without_a_choice_of_strategy_does_not_choose_the_device(name_device):
    class Connector:
        def _check_and_init_precision(self):
            return "its own"

        @staticmethod
        def _choose_auto_accelerator():
            return "cpu"

    with pytest.raises(AttributeError, match="_choose_strategy"):
        ours.teach_connector(types.SimpleNamespace(_Connector=Connector))
    name_device("environment")
    assert Connector._choose_auto_accelerator() == "cpu"
