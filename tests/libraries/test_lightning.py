"""Lightning's Trainer: `accelerator="lazuli"`, "auto" where lazuli is named, mixed precision."""

import json
import os
import subprocess
import sys
import tempfile
import warnings

import pytest
import torch
from torch import nn
from torch.testing import assert_close

L = pytest.importorskip("lightning.pytorch")

STEPS = 8


class Net(L.LightningModule):
    def __init__(self, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3))
        self.dropout = dropout
        self.losses, self.measured, self.types = [], [], set()

    def forward(self, x):
        return self.layers(nn.functional.dropout(x, self.dropout, self.training))

    def training_step(self, batch, index):
        y = self(batch[0])
        self.types.add((y.device.type, y.dtype))
        loss = nn.functional.cross_entropy(y, batch[1])
        self.log("loss", loss)
        self.losses.append(loss.detach())
        return loss

    def validation_step(self, batch, index):
        self.log("valid", nn.functional.cross_entropy(self(batch[0]), batch[1]))

    def on_validation_epoch_end(self):
        self.measured.append(float(self.trainer.callback_metrics["valid"]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def batches():
    draw = torch.Generator().manual_seed(2)
    x = torch.randn(32, 8, generator=draw)
    data = torch.utils.data.TensorDataset(x, x[:, 0].gt(0).long())
    return torch.utils.data.DataLoader(data, batch_size=8)


def trainer(folder, accelerator, **options):
    return L.Trainer(
        accelerator=accelerator,
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"max_steps": STEPS, "enable_checkpointing": False, **options},
    )


def run(folder, accelerator, net=None, **options):
    net = Net() if net is None else net
    t = trainer(folder, accelerator, **options)
    t.fit(net, batches(), batches())
    return t, net, [float(loss) for loss in net.losses], net.measured


def compare(folder, accelerator="lazuli", tolerance=(1e-4, 1e-5), net=None, **options):
    _, _, expected, measured = run(folder, "cpu", **options)
    t, net, actual, ours = run(folder, accelerator, net, **options)
    assert {device for device, _ in net.types} == {"lazuli"}
    assert len(actual) == len(expected) > 0
    rtol, atol = tolerance
    assert_close(actual, expected, rtol=rtol, atol=atol)
    assert_close(ours, measured, rtol=rtol, atol=atol)
    return t, net


@pytest.mark.parametrize(
    "options", [{}, {"accumulate_grad_batches": 2, "gradient_clip_val": 0.5}], ids=str
)
def test_same_losses(tmp_path, options):
    t, _ = compare(tmp_path, **options)
    assert type(t.accelerator).__name__ == "LazuliAccelerator"


def test_double_precision(tmp_path):
    compare(tmp_path, tolerance=(1e-9, 1e-10), precision="64-true")


@pytest.mark.parametrize("way", ["environment", "default device", "take over"])
def test_auto_takes_it_where_it_is_named(tmp_path, name_device, way):
    _, _, expected, _ = run(tmp_path, "cpu")
    net, loader = Net(), batches()
    name_device(way)
    t = trainer(tmp_path, "auto")
    t.fit(net, loader)
    assert {device for device, _ in net.types} == {"lazuli"}
    assert_close([float(loss) for loss in net.losses], expected, rtol=1e-4, atol=1e-5)


def test_auto_is_the_cpu_where_nothing_is_named(tmp_path):
    assert trainer(tmp_path, "auto").strategy.root_device.type != "lazuli"


def test_gpu_is_lazuli_only_where_it_takes_over(tmp_path, name_device, monkeypatch):
    if not torch.cuda.is_available():
        with pytest.raises(Exception, match="No supported gpu backend found"):
            trainer(tmp_path, "gpu")
    name_device("take over")
    assert trainer(tmp_path, "gpu").strategy.root_device.type == "lazuli"


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_mixed_precision(tmp_path, precision):
    # The CPU's trainer takes bf16 for both.
    _, _, expected, _ = run(tmp_path, "cpu", precision="bf16-mixed")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*CUDA is not available.*")
        t, net, actual, _ = run(tmp_path, "lazuli", precision=precision)
    kind = torch.bfloat16 if precision == "bf16-mixed" else torch.float16
    assert net.types == {("lazuli", kind)}
    scaler = t.precision_plugin.scaler
    assert (scaler is not None) == (precision == "16-mixed")
    assert scaler is None or (scaler.is_enabled() and scaler.get_scale() > 1)
    assert_close(actual, expected, rtol=5e-2, atol=2e-2)


@pytest.mark.parametrize("precision", ["bf16-true", "16-true"])
def test_half_precision(tmp_path, precision):
    if precision == "bf16-true":
        compare(tmp_path, precision=precision, tolerance=(5e-2, 5e-2))
    else:
        _, net, losses, _ = run(tmp_path, "lazuli", precision=precision)
        assert net.types == {("lazuli", torch.float16)}
        assert losses[-1] < losses[0]


@pytest.mark.parametrize("saved_on", ["cpu", "lazuli"])
def test_checkpoint_and_resume(tmp_path, saved_on):
    first, _, begin, _ = run(tmp_path, saved_on, max_steps=3)
    first.save_checkpoint(tmp_path / "part.ckpt")

    def goes_on(accelerator):
        t = trainer(tmp_path, accelerator)
        t.fit(net := Net(), batches(), ckpt_path=tmp_path / "part.ckpt", weights_only=False)
        assert t.global_step == STEPS
        return [float(loss) for loss in net.losses]

    assert len(begin) == 3
    actual, expected = goes_on("lazuli"), goes_on("cpu")
    assert len(actual) == len(expected) >= STEPS - 3
    assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["validate", "predict"])
def test_evaluation_and_prediction(tmp_path, method):
    def results(accelerator):
        net = _Predicts()
        return net, getattr(trainer(tmp_path, accelerator), method)(net, batches())

    (_, expected), (net, actual) = results("cpu"), results("lazuli")
    assert net.devices == {"lazuli"}
    assert_close(actual, expected, rtol=1e-4, atol=1e-5)


class _Predicts(Net):
    def __init__(self):
        super().__init__()
        self.devices = set()

    def forward(self, x):
        self.devices.add(x.device.type)
        return super().forward(x)

    def predict_step(self, batch, index):
        return self(batch[0])


def test_early_stopping_and_best_model(tmp_path):
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

    def best(accelerator):
        saving = ModelCheckpoint(tmp_path / accelerator, monitor="valid", save_top_k=1)
        stopping = EarlyStopping("valid", patience=2)
        options = {"callbacks": [saving, stopping], "enable_checkpointing": True}
        run(tmp_path, accelerator, **options)
        loaded = torch.load(saving.best_model_path, map_location="cpu", weights_only=False)
        return float(saving.best_model_score), loaded["state_dict"]

    assert_close(best("lazuli"), best("cpu"), rtol=1e-4, atol=1e-5)


def test_random_states_are_put_back():
    from lightning.pytorch.utilities.seed import isolate_rng

    torch.rand(1, device="lazuli")
    with isolate_rng():
        first = torch.rand(4, device="lazuli").tolist()
    assert torch.rand(4, device="lazuli").tolist() == first


def test_a_model_that_is_moved_away_is_warned_of(tmp_path):
    net = Net().to("lazuli")
    with pytest.warns(UserWarning, match="Lightning moves a model from lazuli to cpu"):
        trainer(tmp_path, "cpu").fit(net, batches())


def test_strategies_for_gpus_are_refused(tmp_path):
    with pytest.raises(ValueError, match="requires a GPU accelerator"):
        trainer(tmp_path, "lazuli", strategy="fsdp")


SCRIPT = """
import json, os, sys
sys.path.insert(0, {tests!r})
import torch
from test_lightning import Net, batches, trainer

t = trainer({folder!r}, {accelerator!r}, devices=2, strategy="ddp", max_steps=2)
t.fit(net := Net(), batches())
rank = int(os.environ["LOCAL_RANK"])
result = [str(t.strategy.root_device), t.world_size, [float(x) for x in net.losses]]
with open(f"{folder}/{{rank}}.json", "w") as file:
    json.dump(result, file)
"""


def test_two_processes_train_one_model(tmp_path):
    def results(accelerator):
        folder = tempfile.mkdtemp(dir=tmp_path)
        script = tmp_path / "script.py"
        here = os.path.dirname(os.path.abspath(__file__))
        script.write_text(SCRIPT.format(tests=here, folder=folder, accelerator=accelerator))
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(script)],
            env=os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(open(f"{folder}/{rank}.json").read()) for rank in (0, 1)]

    for ours, eagers in zip(results("lazuli"), results("cpu"), strict=True):
        assert ours[0] == "lazuli:0"
        assert ours[1] == eagers[1] == 2
        assert_close(ours[2], eagers[2], rtol=1e-4, atol=1e-5)
