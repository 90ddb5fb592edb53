"""The plugin is loaded by the first use of the device, whichever that is, and by nothing else."""

import os
import subprocess
import sys

import pytest

STATE = "print('loaded', torch.lazuli.is_initialized(), 'device_module' in str(sys.modules))"


def run(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import sys, torch\n{code}\n{STATE}"],
        env=os.environ | {"LAZULI_UNPLANNED": "always"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_work_on_the_cpu_does_not_load_it():
    code = """
import os, threading
torch.manual_seed(3)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
loader = torch.utils.data.DataLoader(list(range(4)), num_workers=1, shuffle=True)
print(sorted(int(x) for x in loader))
print(torch.lazuli.is_available(), torch.lazuli.device_count(), torch.device("lazuli"))
print(torch.accelerator.device_count(), torch.ones(1).is_lazuli)
print(torch.get_autocast_dtype("lazuli"))
"""
    *_, lower, loaded = run(code)
    assert (lower, loaded) == ("torch.bfloat16", "loaded False False")


@pytest.mark.parametrize(
    "use",
    [
        'torch.ones(2, device="lazuli")',
        'torch.ops.aten.ones([2], device=torch.device("lazuli"))',
        'torch.ones(2).to("lazuli")',
        'torch.tensor([1.0, 2.0], device="lazuli:0")',
        'torch.nn.Linear(2, 2, device="meta").to_empty(device="lazuli")',
        'torch.Generator(device="lazuli").manual_seed(3)',
        'torch.Event(device="lazuli").record()',
        'torch.UntypedStorage(4, device="lazuli")',
        'torch.ones(2).pin_memory("lazuli")',
        'torch.nested.nested_tensor([torch.ones(2)], device="lazuli")',
        'torch.sparse_coo_tensor([[0]], [1.0], (2,), device="lazuli")',
        "torch.lazuli.synchronize()",
        'torch.set_default_device("lazuli"); torch.ones(2)',
        'torch.ops.aten.zeros([2, 2], layout=torch.sparse_coo, device=torch.device("lazuli"))',
        'torch.ops.aten.empty([2, 2], layout=torch.sparse_csr, device=torch.device("lazuli"))',
        "torch.ops.aten._empty_affine_quantized([2], scale=1.0, zero_point=0, dtype=torch.quint8, "
        'device=torch.device("lazuli"))',
        "import torch.utils.checkpoint as c\n"
        "x = torch.ones(4, requires_grad=True)\n"
        'f = lambda x: torch.nn.functional.dropout(x.to("lazuli"), 0.5).sum()\n'
        "c.checkpoint(f, x, use_reentrant=False).backward()",
        "import threading\n"
        "barrier, failed = threading.Barrier(8), []\n"
        "def work():\n"
        "    barrier.wait()\n"
        "    try:\n"
        '        torch.ops.aten.ones([2], device=torch.device("lazuli"))\n'
        "    except RuntimeError as error:\n"
        "        failed.append(error)\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "assert not failed, failed[0]",
        "import io; b = io.BytesIO(); torch.save(torch.ones(2), b); b.seek(0)\n"
        'torch.load(b, map_location="lazuli")',
        "import threading\n"
        'work = lambda: torch.ones(2, device="lazuli").sum().item()\n'
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]",
    ],
)
def test_a_first_use_loads_it(use):
    assert run(use) == ["loaded True True"]


def test_a_seed_before_the_first_use_counts():
    draw = 'print(torch.randn(3, device="lazuli").tolist())'
    first, _ = run(f"torch.manual_seed(7); {draw}")
    second, _ = run(f'torch.ones(1, device="lazuli"); torch.manual_seed(7); {draw}')
    other, _ = run(f"torch.manual_seed(8); {draw}")
    assert first == second != other


def test_a_forked_child_may_be_the_first():
    code = """
import os
child = os.fork()
if child == 0:
    os._exit(int(torch.ones(5, device="lazuli").sum().item()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(code) == ["5", "loaded False False"]


def test_the_module_can_be_sent_and_found():
    import importlib.util
    import pickle

    import torch

    assert pickle.loads(pickle.dumps(torch.lazuli)) is torch.lazuli
    assert importlib.util.find_spec("torch.lazuli") is torch.lazuli.__spec__
    with pytest.raises(ValueError, match="64 bits"):
        torch.lazuli.manual_seed_all(1 << 70)


def test_the_modules_names_are_those_of_the_plugins_module():
    import torch
    from torch_lazuli import front

    torch.lazuli.synchronize()
    from torch_lazuli import device_module

    assert set(device_module.__all__) == front.NAMES
    with pytest.raises(AttributeError, match=r"torch\.lazuli.*no attribute 'nothing'"):
        torch.lazuli.nothing  # noqa: B018
