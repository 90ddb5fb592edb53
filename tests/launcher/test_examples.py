"""The scripts of examples/, which name no lazuli: launched, they print what eager prints."""

import importlib.util
import json

import pytest
from programs import EXAMPLES, launched_output, numbers, output, words

EAGER_NUMBERS = ("--random", "eager")


def compare(
    tmp_path, script, *arguments, host=("--device", "cpu"), tolerance=2e-3, without="cuda devices"
):
    """Both runs print the same, and the launched one computed on lazuli."""
    command = (EXAMPLES / script, *arguments)
    expected = output(*command, *host, launched=False, cwd=tmp_path)
    text, counters = launched_output(
        *EAGER_NUMBERS, *command, metrics=tmp_path / "metrics", cwd=tmp_path
    )
    assert counters["ops_recorded"] > 300
    ours, eagers = (
        "\n".join(line for line in t.splitlines() if not line.startswith(("cuda devices", without)))
        for t in (text, expected)
    )
    assert words(ours) == words(eagers)
    assert numbers(ours) == pytest.approx(numbers(eagers), rel=tolerance)
    return text


def test_a_script_that_names_no_device(tmp_path):
    compare(tmp_path, "mlp.py", host=())


def test_an_image_trainer_and_its_checkpoints(tmp_path):
    # Sums of bfloat16 differ in their last digits. After few epochs the running means of batch norm
    # decide the accuracy, so that it is compared at the end only.
    compare(tmp_path, "train_images.py", tolerance=0.01, without="accuracy")
    resumed = ("--epochs", "4", "--resume", "checkpoint.pt", "--output", "resumed.pt")
    text = compare(tmp_path, "train_images.py", *resumed, tolerance=0.03)
    assert "resumed at epoch 2" in text
    assert numbers(text)[-1] > 0.9


def test_a_checkpoint_is_read_without_lazuli(tmp_path):
    output(EXAMPLES / "train_images.py", "--epochs", "1", cwd=tmp_path)
    read = "import torch; s = torch.load('checkpoint.pt', map_location='cpu'); print(s['epoch'])"
    assert output("-c", read, launched=False, cwd=tmp_path).strip() == "0"
    assert b"lazuli" not in (tmp_path / "checkpoint.pt").read_bytes()


def test_a_gpt(tmp_path):
    compare(tmp_path, "train_gpt.py")


def test_a_gpt_in_bfloat16(tmp_path):
    text, _ = launched_output(
        EXAMPLES / "train_gpt.py", "--dtype", "bfloat16", metrics=tmp_path / "m"
    )
    exact = output(EXAMPLES / "train_gpt.py", "--device", "cpu", launched=False)
    assert numbers(text) == pytest.approx(numbers(exact), rel=0.05)


def test_a_gpt_in_two_processes(tmp_path):
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    command = (*torchrun, EXAMPLES / "train_gpt.py", "--steps", "8")
    expected = output(*command, "--device", "cpu", launched=False)
    text = output(*EAGER_NUMBERS, *command)
    assert words(text) == words(expected)
    assert numbers(text) == pytest.approx(numbers(expected), rel=2e-3)


def test_an_agent(tmp_path):
    compare(tmp_path, "ppo.py")


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("transformers", "accelerate"))),
    reason="needs transformers and accelerate",
)
def test_fine_tuning_with_a_trainer(tmp_path):
    compare(tmp_path, "fine_tune.py", host=())


CELLS = """
import json, sys
{shell}
for cell in json.load(open({notebook!r}))["cells"]:
    run("".join(cell["source"]))
"""
PLAIN = "names = {}; run = lambda code: exec(code, names)"
TAKEN = (
    PLAIN
    + """
import torch_lazuli; torch_lazuli.load_ipython_extension(None)"""
)
IPYTHON = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
run = lambda code: shell.run_cell(code).raise_error()
run("%load_ext torch_lazuli")"""


@pytest.mark.parametrize("shell", ["extension", "IPython"])
def test_a_notebook(tmp_path, shell):
    if shell == "IPython":
        pytest.importorskip("IPython")
    notebook = EXAMPLES / "notebook.ipynb"
    code = {"extension": TAKEN, "IPython": IPYTHON}[shell]
    program = tmp_path / "cells.py"
    program.write_text(CELLS.format(shell=PLAIN, notebook=str(notebook)))
    expected = output(program, launched=False)
    program.write_text(CELLS.format(shell=code, notebook=str(notebook)))
    metrics = tmp_path / "metrics"
    text = output(program, launched=False, LAZULI_METRICS=str(metrics))
    lines = [line for line in text.splitlines() if not line.startswith("Out[")]
    assert numbers("\n".join(lines)) == pytest.approx(numbers(expected), rel=2e-3)
    assert len(numbers(expected)) == 4
    assert json.loads(metrics.read_text())["ops_recorded"] > 100
