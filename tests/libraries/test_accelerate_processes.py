"""accelerate and Trainer in two processes: they train one model together, over gloo."""

import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("accelerate")

SCRIPT = """
import json, sys
import torch
from torch import nn
from accelerate import Accelerator

torch.manual_seed(0)
accelerator = Accelerator(mixed_precision={precision!r})
net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
draw = torch.Generator().manual_seed(2)
x = torch.randn(32, 8, generator=draw)
data = torch.utils.data.TensorDataset(x, x[:, 0].gt(0).long())
loader = torch.utils.data.DataLoader(data, batch_size=32 // {processes})
net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
losses = []
for _ in range(3):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()).mean().item())
result = [accelerator.process_index, str(accelerator.device), accelerator.num_processes,
          type(net).__name__, losses]
open(f"{{sys.argv[1]}}/{{accelerator.process_index}}.json", "w").write(json.dumps(result))
accelerator.end_training()
"""

TRAINER = """
import json, sys
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
config = BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                    intermediate_size=48, max_position_embeddings=16, num_labels=3,
                    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
words = torch.randint(0, 60, (16, 12), generator=torch.Generator().manual_seed(1))
data = [{{"input_ids": row.tolist(), "labels": int(row[0]) % 3}} for row in words]
arguments = TrainingArguments(
    output_dir={folder!r}, max_steps=3, per_device_train_batch_size=8 // {processes},
    logging_steps=1, learning_rate=1e-3, report_to=[], disable_tqdm=True, save_strategy="no",
    train_sampling_strategy="sequential", use_cpu={use_cpu},
    ddp_find_unused_parameters=False,
)
model = BertForSequenceClassification(config)
if {on_device}:
    model.to("lazuli")
trainer = Trainer(model, arguments, train_dataset=data)
trainer.train()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
result = [arguments.process_index, str(arguments.device), arguments.world_size,
          type(trainer.model_wrapped).__name__, losses]
open(f"{{sys.argv[1]}}/{{arguments.process_index}}.json", "w").write(json.dumps(result))
torch.distributed.destroy_process_group()  # else gloo's threads may abort the process at its end
"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def launch(tmp_path, text, launcher, device="lazuli"):
    """What each process that ran writes, in order."""
    script = tmp_path / "script.py"
    script.write_text(text)
    results = Path(tempfile.mkdtemp(dir=tmp_path))
    named = {} if device is None else {"ACCELERATE_TORCH_DEVICE": device}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *launcher, str(script), str(results)],
        env=os.environ | named | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(file.read_text()) for file in sorted(results.glob("*.json"))]


def accelerate_launch(processes, *options):
    port = ["--main_process_port", str(free_port())]
    return ["accelerate.commands.launch", "--num_processes", str(processes), *port, *options]


def torchrun(processes=2):
    port = ["--master_port", str(free_port())]
    return ["torch.distributed.run", "--nproc_per_node", str(processes), *port]


def alone(tmp_path, monkeypatch, precision="no") -> list[float]:
    """The losses of one process on the CPU that has the batches of both."""
    script = tmp_path / "alone.py"
    script.write_text(SCRIPT.format(processes=1, precision=precision))
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path)])
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    runpy.run_path(str(script))
    return json.loads((tmp_path / "0.json").read_text())[4]


def check(results, expected, tolerance=2e-4):
    """Two processes trained one model on lazuli, with these losses."""
    assert [result[0] for result in results] == [0, 1]
    for _, device, processes, model, _ in results:
        assert device.startswith("lazuli")
        assert (processes, model) == (2, "DistributedDataParallel")
    losses = next(result[4] for result in results if result[4])
    assert losses == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("launcher", [accelerate_launch, torchrun])
def test_two_processes_train_one_model(tmp_path, monkeypatch, launcher):
    expected = alone(tmp_path, monkeypatch)
    monkeypatch.undo()
    check(launch(tmp_path, SCRIPT.format(processes=2, precision="no"), launcher(2)), expected)


def test_one_process(tmp_path, monkeypatch):
    expected = alone(tmp_path, monkeypatch)
    monkeypatch.undo()
    text = SCRIPT.format(processes=1, precision="no")
    ((_, device, processes, _, losses),) = launch(tmp_path, text, accelerate_launch(1))
    assert (device, processes) == ("lazuli", 1)
    assert losses == pytest.approx(expected, abs=2e-5)


def test_two_processes_in_bf16(tmp_path, monkeypatch):
    expected = alone(tmp_path, monkeypatch, "bf16")
    monkeypatch.undo()
    text = SCRIPT.format(processes=2, precision="bf16")
    check(launch(tmp_path, text, accelerate_launch(2)), expected, tolerance=2e-2)


@pytest.fixture(scope="module")
def two_on_the_cpu(tmp_path_factory):
    """The losses of transformers' trainer in two processes on the CPU."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("cpu")
    text = TRAINER.format(processes=2, folder=str(folder), use_cpu=True, on_device=False)
    results = launch(folder, text, torchrun(), device=None)
    assert [result[2] for result in results] == [2, 2]
    return next(result[4] for result in results if result[4])


@pytest.mark.parametrize("on_device", [False, True])
def test_trainer_in_two_processes(tmp_path, two_on_the_cpu, on_device):
    """As two processes on the CPU, whether the device or only the model says lazuli."""
    fields = {"processes": 2, "folder": str(tmp_path / "out"), "use_cpu": False}
    text = TRAINER.format(**fields, on_device=on_device)
    results = launch(tmp_path, text, torchrun(), device=None if on_device else "lazuli")
    check(results, two_on_the_cpu)
