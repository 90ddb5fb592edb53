"""skorch, fastai, ignite, torch_geometric, timm: a few steps each, as on the CPU."""

import numpy
import pytest
import torch
from torch import nn
from torch.testing import assert_close


def points():
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(64, 8, generator=draw)
    return x, x[:, 0].gt(0).long()


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))


def test_skorch(tmp_path):
    skorch = pytest.importorskip("skorch")

    def run(device, **options):
        torch.manual_seed(0)
        net = skorch.NeuralNetClassifier(
            network(),
            criterion=nn.CrossEntropyLoss,
            optimizer=torch.optim.AdamW,
            lr=0.01,
            max_epochs=3,
            batch_size=16,
            train_split=skorch.dataset.ValidSplit(4, stratified=False),
            device=device,
            verbose=0,
            **options,
        )
        x, y = points()
        net.fit(x.numpy(), y.numpy())
        losses = net.history[:, ("train_loss", "valid_loss")]
        net.save_params(f_params=tmp_path / f"{device}.pt", f_optimizer=tmp_path / f"{device}.opt")
        again = net.initialize()
        again.load_params(
            f_params=tmp_path / f"{device}.pt", f_optimizer=tmp_path / f"{device}.opt"
        )
        assert next(again.module_.parameters()).device.type == device
        return losses, again.predict_proba(x.numpy())

    (actual, ours), (expected, eagers) = run("lazuli"), run("cpu")
    assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    numpy.testing.assert_allclose(ours, eagers, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", ["environment", "default device", "take over", "by hand"])
def test_fastai(name_device, way):
    pytest.importorskip("fastai")
    import fastai.callback.progress  # noqa: F401  gives a learner `no_bar`
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    from fastai.metrics import accuracy
    from fastai.torch_core import default_device

    data, nets = list(zip(*points(), strict=True)), [network(), network()]

    def run(net, **device):
        options = {"bs": 16, "shuffle": False, "num_workers": 0, **device}
        dls = DataLoaders.from_dsets(data[:48], data[48:], **options)
        learner = Learner(dls, net, loss_func=nn.CrossEntropyLoss(), metrics=accuracy, lr=1e-2)
        with learner.no_bar(), learner.no_logging():
            learner.fit(3)
            measured = list(learner.validate())
        return str(next(net.parameters()).device), measured

    place, expected = run(nets[0], device=torch.device("cpu"))
    assert place == "cpu"
    if way != "by hand":
        name_device(way)
    # What fastai's data blocks and `dls.cuda()` take; loaders of one's own have no device.
    device = torch.device("lazuli") if way == "by hand" else default_device()
    place, actual = run(nets[1], device=device)
    assert place == "lazuli:0"
    assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", ["environment", "take over"])
def test_ignite(name_device, way):
    pytest.importorskip("ignite")
    from ignite import distributed as idist
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import Accuracy, Loss

    def run(device, **options):
        net = idist.auto_model(network()) if device is None else network().to(device)
        device = idist.device() if device is None else device
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        loss = nn.CrossEntropyLoss()
        trainer = create_supervised_trainer(net, optimizer, loss, device=device, **options)
        losses = []
        trainer.add_event_handler(
            Events.ITERATION_COMPLETED, lambda engine: losses.append(engine.state.output)
        )
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(*points()), batch_size=16
        )
        trainer.run(loader, max_epochs=2)
        metrics = {"accuracy": Accuracy(), "loss": Loss(loss)}
        evaluator = create_supervised_evaluator(net, metrics=metrics, device=device)
        measured = evaluator.run(loader).metrics
        return str(next(net.parameters()).device), losses, measured

    _, expected, measured = run("cpu")
    assert idist.device().type != "lazuli"
    name_device(way)
    assert idist.device() == torch.device("lazuli", 0)
    place, actual, ours = run(None)
    assert place == "lazuli:0"
    assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert_close(ours, measured, rtol=1e-4, atol=1e-5)


def test_torch_geometric(name_device):
    pytest.importorskip("torch_geometric")
    import torch_geometric
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GATConv, GCNConv, global_mean_pool

    class Graphs(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second = GCNConv(5, 8), GATConv(8, 8, heads=2)
            self.last = nn.Linear(16, 2)

        def forward(self, data):
            x = self.first(data.x, data.edge_index).relu()
            x = self.second(x, data.edge_index).relu()
            return self.last(global_mean_pool(x, data.batch))

    draw = torch.Generator().manual_seed(2)

    def graph(label):
        edges = torch.randint(0, 10, (2, 30), generator=draw)
        return Data(torch.randn(10, 5, generator=draw), edges, y=torch.tensor([label]))

    graphs = [graph(i % 2) for i in range(12)]

    def losses(device):
        net = Graphs().to(device)
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        result = []
        for batch in [*DataLoader(graphs, batch_size=4)] * 3:
            batch = batch.to(device)
            loss = nn.functional.cross_entropy(net(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            result.append(loss.item())
        return result

    expected = losses("cpu")
    name_device("environment")
    assert torch_geometric.device("cpu").type == "cpu"
    device = torch_geometric.device("auto")
    assert device.type == "lazuli"
    assert_close(losses(device), expected, rtol=1e-4, atol=1e-5)


def test_timm():
    timm = pytest.importorskip("timm")
    from timm.loss import LabelSmoothingCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.scheduler import create_scheduler_v2
    from timm.utils import ModelEmaV3, NativeScaler, accuracy
    from timm.utils.distributed import init_distributed_device_so

    def run(name):
        device = torch.device(init_distributed_device_so(name)["device"])
        torch.manual_seed(0)
        net = timm.create_model("resnet10t", num_classes=4, in_chans=1).to(device)
        average = ModelEmaV3(net, decay=0.9)
        optimizer = create_optimizer_v2(net, "adamw", lr=1e-3, weight_decay=0.05)
        schedule, _ = create_scheduler_v2(optimizer, "cosine", num_epochs=3)
        loss_of = LabelSmoothingCrossEntropy(0.1)
        draw = torch.Generator().manual_seed(1)
        x = torch.randn(8, 1, 32, 32, generator=draw).to(device)
        y = torch.arange(8).remainder(4).to(device)
        scale, losses = NativeScaler(device=name), []
        for epoch in range(3):
            with torch.autocast(device.type, torch.bfloat16, enabled=False):
                loss = loss_of(net(x), y)
            optimizer.zero_grad()
            scale(loss, optimizer, clip_grad=1.0, parameters=net.parameters())
            average.update(net)
            schedule.step(epoch + 1)
            losses.append(loss.item())
        net.eval()
        with torch.no_grad():
            first, _ = accuracy(net(x), y, topk=(1, 2))
        assert next(average.parameters()).device.type == name
        return losses, first.item()

    actual, expected = run("lazuli"), run("cpu")
    assert_close(actual[0], expected[0], rtol=1e-3, atol=1e-4)
    assert actual[1] == expected[1]


def test_timm_gives_all_processes_the_one_device(monkeypatch):
    pytest.importorskip("timm")
    from timm.utils.distributed import init_distributed_device_so

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("RANK", "1")
    begun = []
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda **how: begun.append(how))
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    result = init_distributed_device_so("lazuli")
    assert (result["device"], result["world_size"]) == ("lazuli:0", 2)
    assert begun[0]["backend"] == "gloo"


def test_named_device_goes_before_a_gpu(name_device, monkeypatch):
    """Where there is a GPU these take it, unless lazuli is named."""
    pytest.importorskip("ignite")
    pytest.importorskip("torch_geometric")
    pytest.importorskip("sentence_transformers")
    import torch_geometric
    from ignite import distributed as idist
    from sentence_transformers.util import get_device_name

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    def answers():
        return idist.device(), torch_geometric.device("auto"), torch.device(get_device_name())

    assert {device.type for device in answers()} == {"cuda"}
    name_device("environment")
    assert {device.type for device in answers()} == {"lazuli"}
