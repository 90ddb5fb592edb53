"""Addresses that tensors give away: who reads and writes there sees, and is seen, as with eager."""

import copy
import ctypes
import io
import os
import re
import signal
import subprocess
import sys
import threading

import numpy
import pytest
import torch


def at(t: torch.Tensor) -> numpy.ndarray:
    """An array over the memory at the tensor's address, as numba or ctypes would take it."""
    kinds = {
        torch.float32: ctypes.c_float,
        torch.int64: ctypes.c_int64,
        torch.uint8: ctypes.c_uint8,
    }
    memory = (kinds[t.dtype] * t.numel()).from_address(t.data_ptr())
    return numpy.ctypeslib.as_array(memory)


SIZES = (1, 7, 1024, 1025, 300_000)


@pytest.mark.parametrize("size", SIZES)
def test_a_reader_sees_what_ops_have_computed(size):
    x = torch.arange(float(size), device="lazuli") * 2
    assert (at(x) == numpy.arange(size, dtype=numpy.float32) * 2).all()


@pytest.mark.parametrize("size", SIZES)
def test_ops_see_what_a_writer_has_written(size):
    x = torch.zeros(size, device="lazuli")
    at(x)[-1] = 3.0
    assert (x + 1).sum().item() == size + 3


def test_a_reader_sees_what_ops_write_later_without_asking_again():
    x = torch.zeros(5, device="lazuli")
    memory = at(x)
    assert memory[0] == 0
    x += 1
    assert memory.tolist() == [1] * 5
    x[2] = 7
    assert memory[2] == 7
    x.fill_(4)
    assert memory.tolist() == [4] * 5
    x.copy_(torch.arange(5.0))
    assert memory.tolist() == [0, 1, 2, 3, 4]
    x.uniform_()
    assert memory.tolist() == x.tolist()


def test_an_op_that_was_called_before_a_write_does_not_see_it():
    x = torch.ones(6, device="lazuli")
    memory = at(x)
    before = x * 10
    memory[:] = 5
    after = x * 10
    memory[:] = 6
    assert before.tolist() == [10] * 6
    assert after.tolist() == [50] * 6
    assert x.tolist() == [6] * 6
    assert memory.tolist() == [6] * 6


def test_part_of_what_was_written_outside_stays_when_an_op_writes_another_part():
    x = torch.zeros(4, device="lazuli")
    memory = at(x)
    memory[3] = 9
    x[0] = 1
    assert memory.tolist() == [1, 0, 0, 9]
    assert x.tolist() == [1, 0, 0, 9]


def test_views_share_the_address_and_what_is_written_there():
    x = torch.zeros(3, 4, device="lazuli")
    row = x[1]
    assert row.data_ptr() == x.data_ptr() + 16 == x.detach()[1].data_ptr()
    at(row)[:] = 2
    assert x.sum().item() == 8
    assert row.tolist() == [2] * 4


def test_an_external_kernel_writes_where_the_address_leads():
    x = torch.ones(3, device="lazuli")
    memory = at(x)
    memory[0] = 4
    torch.special.bessel_j0(torch.zeros(3, device="lazuli"), out=x)
    x.index_put_((torch.tensor([1], device="lazuli"),), torch.tensor(8.0, device="lazuli"))
    assert memory.tolist() == x.tolist() == [1, 8, 1]


def test_an_address_lasts_until_the_storage_is_resized():
    x = torch.ones(3, device="lazuli")
    first = x.data_ptr()
    x.mul_(2)
    assert x.data_ptr() == first
    at(x)[0] = 5
    x.resize_(5000)
    assert x[:3].tolist() == [5, 2, 2]
    at(x)[4999] = 1
    assert x[4999].item() == 1
    assert x[:3].tolist() == [5, 2, 2]


def test_storages_give_the_same_addresses():
    x = torch.ones(3, 2, device="lazuli")
    assert x.untyped_storage().data_ptr() == x.data_ptr() == x.t().untyped_storage().data_ptr()
    assert torch.empty(0, device="lazuli").untyped_storage().data_ptr() == 0
    assert x[:0].data_ptr() == 0
    assert x.untyped_storage().data_ptr() != torch.ones(3, 2, device="lazuli").data_ptr()


def test_asking_ends_no_trace():
    x = torch.ones(3, device="lazuli")
    torch.lazuli.synchronize()
    before = torch.lazuli.metrics()["syncs"]
    y = x + 1
    y.data_ptr()
    assert torch.lazuli.metrics()["syncs"] == before
    assert at(y).tolist() == [2] * 3


def test_training_goes_on_with_what_was_written():
    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Linear(8, 4)
        net = net.to(device)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        x = torch.ones(3, 8, device=device)
        for step in range(6):
            if step == 3:
                at(net.weight.detach())[:] = 0.25
            optimizer.zero_grad()
            net(x).square().sum().backward()
            optimizer.step()
        return net.weight.detach().cpu()

    torch.testing.assert_close(train("lazuli"), train("cpu"))


def test_copies_files_and_states_hold_what_was_written():
    net = torch.nn.Linear(2, 1, bias=False, device="lazuli")
    at(net.weight.detach())[:] = 3
    assert copy.deepcopy(net).weight.tolist() == [[3, 3]]
    assert net.state_dict()["weight"].tolist() == [[3, 3]]
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    assert torch.load(file)["weight"].tolist() == [[3, 3]]
    assert net.weight.clone().tolist() == net.weight.cpu().tolist() == [[3, 3]]


def test_threads_read_and_write_at_once():
    tensors = [torch.full((70_000,), float(k), device="lazuli") for k in range(8)]
    wrong = []

    def work(k):
        for turn in range(10):
            memory = at(tensors[k])
            if memory[-1] != k + turn or memory[0] != k + turn:
                wrong.append((k, turn))
            memory += 1
            if tensors[k][5].item() != k + turn + 1:
                wrong.append((k, turn))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_half_and_booleans_and_odd_sizes():
    for dtype in (torch.float16, torch.bool, torch.complex64, torch.float8_e4m3fn):
        x = torch.ones(3).to(dtype)
        y = x.to("lazuli")
        size = x.numel() * x.itemsize
        assert ctypes.string_at(y.data_ptr(), size) == ctypes.string_at(x.data_ptr(), size)
        ctypes.memset(y.data_ptr(), 0, x.itemsize)
        x[0] = 0
        assert y.cpu().view(torch.uint8).tolist() == x.view(torch.uint8).tolist()


@pytest.mark.skipif(torch.cuda.is_available(), reason="a forked child cannot use a GPU")
def test_a_forked_child_has_a_copy():
    x = torch.ones(2, device="lazuli")
    memory = at(x)
    memory[0] = 2
    child = os.fork()
    if child == 0:
        ok = False
        try:
            memory[1] = 5
            ok = x.tolist() == [2, 5]
        finally:
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert x.tolist() == memory.tolist() == [2, 1]


def test_subclasses_and_wrappers_answer_as_they_do_elsewhere():
    x = torch.nn.Parameter(torch.ones(2, device="lazuli"))
    assert x.data_ptr() == x.detach().data_ptr()

    class Sub(torch.Tensor):
        pass

    sub = torch.ones(2, device="lazuli").as_subclass(Sub)
    assert sub.data_ptr() == sub.view(1, 2).data_ptr() != 0
    with pytest.raises(RuntimeError, match="storage"):
        torch.func.vmap(lambda t: t + t.data_ptr())(torch.ones(2, device="lazuli"))


def ended(script: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )


def test_other_faults_end_the_process_as_before():
    script = """
import ctypes, torch
x = torch.ones(2, device="lazuli")
assert ctypes.c_float.from_address(x.data_ptr()).value == 1
ctypes.string_at(8)
"""
    assert ended(script).returncode == -signal.SIGSEGV


@pytest.mark.parametrize("first", ["lent", "handled"])
def test_pythons_own_handler_of_faults(first):
    """It takes faults over, and gives those that it has told of back to who had them before."""
    enable, lend = "faulthandler.enable()", "torch.ones(2, device='lazuli').data_ptr()"
    script = f"""
import ctypes, faulthandler, torch
{"; ".join((lend, enable) if first == "lent" else (enable, lend))}
x = torch.ones(2, device="lazuli")
print(ctypes.c_float.from_address(x.data_ptr()).value, flush=True)
faulthandler.enable()
ctypes.string_at(8)
"""
    done = ended(script)
    assert done.returncode == -signal.SIGSEGV
    assert done.stdout == "1.0\n"
    assert "Segmentation fault" in done.stderr


def test_what_fails_while_it_is_read_is_told_before_the_process_ends():
    script = """
import ctypes, torch
x = torch.zeros(3, dtype=torch.int64, device="lazuli")
p = x.data_ptr()
x.copy_(torch.arange(3, device="lazuli")[torch.tensor([0, 1, 7], device="lazuli")])
ctypes.c_int64.from_address(p).value
"""
    done = ended(script)
    assert done.returncode == -signal.SIGSEGV
    assert re.search("could not be computed: .*index is out of bounds", done.stderr)
    assert "frame #" not in done.stderr


def test_cpp_gets_the_address_after_python_and_before_one_that_cannot_be_followed():
    x = torch.zeros(2, device="lazuli")
    in_cpp = torch._C.TensorBase.data_ptr  # at::Tensor's
    assert in_cpp(x) >> 48
    assert x.data_ptr() == in_cpp(x) == in_cpp(x[1:]) - 4
    script = """
import ctypes, torch
ctypes.c_float.from_address(torch._C.TensorBase.data_ptr(torch.ones(2, device="lazuli"))).value
"""
    assert ended(script).returncode == -signal.SIGSEGV
