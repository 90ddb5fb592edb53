"""What goes wrong in a kernel: the op and its line are named, and the process lives on.

A kernel that breaks off takes the CUDA context with it, so those are processes of their own.
"""

import inspect
import os
import re
import subprocess
import sys

import pytest
import torch


def line_after() -> str:
    """file:line of the statement after the call to this."""
    caller = inspect.currentframe().f_back
    return f"test_gpu_errors.py:{caller.f_lineno + 1}"


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    torch.lazuli.synchronize()
    assert (torch.ones(3, device="lazuli") + 1).tolist() == [2, 2, 2]
    assert (torch.ones(3, device="cuda") + 1).tolist() == [2, 2, 2]


READS = {
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
    "index_position": lambda x, i: x[i, i],
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "index_select": lambda x, i: x.index_select(0, i),
}


@pytest.mark.parametrize("bad", [20, -20])
@pytest.mark.parametrize("name", READS)
def test_an_index_out_of_range(name, bad):
    # A size of its own: a trace that was seen before has the lines of the first time.
    n = 7 + list(READS).index(name)
    x = torch.randn(n, n).to("lazuli")
    i = torch.tensor([0, bad, 3]).to("lazuli")
    y = READS[name](x, i)
    z = (y * 2).sum()
    with pytest.raises((RuntimeError, IndexError), match=r"index (is )?out of") as error:
        z.item()
    line = READS[name].__code__.co_firstlineno
    assert f"test_gpu_errors.py:{line}" in str(error.value)
    assert x[torch.tensor([1]).to("lazuli")].shape == (1, n)


def test_an_assertion_is_tried_on_no_zeros():
    x = torch.ones((), device="lazuli")
    for _ in range(4):  # the third call of a kind is learned
        torch._assert_async(x)
        torch._assert_async(x, "holds")
    assert (x + 1).item() == 2


def test_a_zero_divisor():
    x = torch.full((70,), 7).to("lazuli")
    d = torch.full((70,), 3)
    d[66] = 0
    d = d.to("lazuli")
    where = line_after()
    y = x // d
    with pytest.raises(RuntimeError, match="ZeroDivisionError") as error:
        (y + 1).sum().item()
    assert "floor_divide" in str(error.value)
    assert where in str(error.value)


def test_a_check_that_fails_in_a_step_is_told_by_who_waits():
    table, ids = torch.randn(4, 8).to("lazuli"), torch.tensor([1, 9]).to("lazuli")
    net = torch.nn.Linear(8, 3).to("lazuli")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    where = line_after()
    rows = torch.nn.functional.embedding(ids, table)
    net(rows).sum().backward()
    optimizer.step()  # only hands the trace over
    with pytest.raises((RuntimeError, IndexError), match="index out of range") as error:
        torch.lazuli.synchronize()
    assert where in str(error.value)


FAULT = """
import ctypes, os, torch
x = torch.ones(1 << 28).to("lazuli")  # 1 GiB: a segment of its own
torch.lazuli.synchronize()
segment = max(torch.cuda.memory_snapshot(), key=lambda s: s["total_size"])
assert ctypes.CDLL("libcuda.so.1").cuMemFree_v2(ctypes.c_uint64(segment["address"])) == 0
try:
    y = (x.sin() + 1).sum()
    print("value", y.item())
except Exception as error:
    print(type(error).__name__, "|", str(error).replace(chr(10), " "))
import sys
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.parametrize("blocking", [False, True], ids=["", "CUDA_LAUNCH_BLOCKING"])
def test_a_kernel_that_breaks_off(blocking, tmp_path):
    script = tmp_path / "fault.py"
    script.write_text(FAULT)
    environment = os.environ | {"CUDA_LAUNCH_BLOCKING": "1" if blocking else "0"}
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=50
    )
    assert re.search("illegal|unspecified launch failure", done.stdout), done
    if blocking:
        assert re.search(r"(sin|add|sum) \(\S*fault\.py:8\)", done.stdout), done.stdout
    else:
        assert "CUDA_LAUNCH_BLOCKING=1" in done.stdout
