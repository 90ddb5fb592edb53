"""Errors that only the numbers show: found when the trace runs, they name the op and its line.

`take` with an index that is too large is the example: its result's type is known before.
"""

import contextlib
import ctypes
import inspect
import subprocess
import sys
import textwrap

import pytest
import torch


def line_after() -> str:
    """file:line of the statement after the call to this."""
    caller = inspect.currentframe().f_back
    return f"test_late.py:{caller.f_lineno + 1}"


def fails_late():
    return torch.ones(4, device="lazuli").take(torch.tensor([99]).to("lazuli"))


def test_an_external_call_that_fails_when_it_runs(planned):
    x, i = torch.ones(4, device="lazuli"), torch.tensor([99]).to("lazuli")
    where = line_after()
    y = x.take(i)
    z = y + 1
    with pytest.raises(IndexError) as error:
        z.cpu()
    assert "take" in str(error.value)
    assert where in str(error.value)


def far(device):
    return torch.tensor([1, 99]).to(device)


OUT_OF_RANGE = {
    "embedding": lambda d: torch.nn.functional.embedding(far(d), torch.ones(10, 4).to(d)),
    "index_select": lambda d: torch.ones(10, 4).to(d).index_select(0, far(d)),
    "indexing": lambda d: torch.ones(10, 4).to(d)[far(d)],
    "index_put": lambda d: torch.ones(10, 4).to(d).index_put((far(d),), torch.tensor(1.0).to(d)),
    "index_add": lambda d: torch.ones(10).to(d).index_add(0, far(d), torch.ones(2).to(d)),
    "index_copy": lambda d: torch.ones(10, 4).to(d).index_copy(0, far(d), torch.ones(2, 4).to(d)),
    "index_fill": lambda d: torch.ones(10, 4).to(d).index_fill(0, far(d), 2.0),
    "take": lambda d: torch.ones(10).to(d).take(far(d)),
    "gather": lambda d: torch.ones(10).to(d).gather(0, far(d)),
    "scatter": lambda d: torch.ones(10).to(d).scatter(0, far(d), 1.0),
    "scatter_add": lambda d: torch.ones(10).to(d).scatter_add(0, far(d), torch.ones(2).to(d)),
    "nll_loss": lambda d: torch.nn.functional.nll_loss(torch.ones(2, 4).to(d), far(d)),
    "cross_entropy": lambda d: torch.nn.functional.cross_entropy(torch.ones(2, 4).to(d), far(d)),
}


def of(numbers, device):
    return torch.tensor(numbers).to(device)


functional = torch.nn.functional
NOT_A_PARAMETER = {
    "normal": lambda d: torch.normal(torch.zeros(2).to(d), of([1.0, -0.1], d)),
    "normal, nan": lambda d: torch.normal(1.0, of([1.0, float("nan")], d)),
    "bernoulli": lambda d: torch.bernoulli(of([0.5, 1.5], d)),
    "bernoulli_": lambda d: torch.zeros(2).to(d).bernoulli_(of([0.5, -0.5], d)),
    "multinomial": lambda d: torch.multinomial(of([0.5, -0.5], d), 1),
    "multinomial, nan": lambda d: torch.multinomial(of([[0.5, float("nan")]], d), 1),
    "multinomial, zeros": lambda d: torch.multinomial(of([[0.5, 0.5], [0.0, 0.0]], d), 1),
    "binary_cross_entropy": lambda d: functional.binary_cross_entropy(
        of([0.5, 1.5], d), of([0.0, 1.0], d)
    ),
}


@pytest.mark.parametrize("name", NOT_A_PARAMETER)
def test_a_number_that_is_no_parameter_is_refused_in_eagers_words(name):
    texts = []
    for device in ("cpu", "lazuli"):
        with pytest.raises(RuntimeError) as error:
            NOT_A_PARAMETER[name](device).sum().item()
        texts.append(str(error.value).partition("  (Could")[0])
    assert texts[0] in texts[1]
    assert "test_late.py" in texts[1]


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_an_index_out_of_range_has_eagers_class(name):
    errors = []
    for device in ("cpu", "lazuli"):
        with pytest.raises((RuntimeError, IndexError)) as error:
            OUT_OF_RANGE[name](device).sum().item()
        errors.append(error.type)
    assert errors[0] is errors[1]


@pytest.mark.parametrize("index", [5, -1])
def test_an_embedding_index_out_of_range(index):
    weight = torch.randn(4, 3).to("lazuli")
    ids = torch.tensor([0, index]).to("lazuli")
    where = line_after()
    y = torch.nn.functional.embedding(ids, weight)
    with pytest.raises(IndexError) as error:
        y.cpu()
    assert "index out of range" in str(error.value)
    assert where in str(error.value)


@pytest.mark.parametrize("index", [4, -5])
def test_an_index_out_of_range(index):
    x, rows = torch.randn(4, 3).to("lazuli"), torch.tensor([0, -4, index]).to("lazuli")
    columns = torch.tensor([2, 0, -3]).to("lazuli")
    where = line_after()
    y = x[rows, columns]
    z = y.sum() + 1
    with pytest.raises(IndexError) as error:
        z.cpu()
    assert "index is out of bounds for dimension with size 4" in str(error.value)
    assert "index_position" in str(error.value)
    assert where in str(error.value)


@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: x.gather(0, i),
        lambda x, i: x.index_select(0, i),
        lambda x, i: x[i],
        lambda x, i: x[i // 1],
        lambda x, i: x[-i],
        lambda x, i: x.view(2, 2)[:, i],
        lambda x, i: x[torch.arange(5).to(x.device)],
        lambda x, i: x[torch.full((2,), 4, device=x.device)],
        lambda x, i: x.index_put((i,), x[:2]),
        lambda x, i: x.index_put((i // 1,), x[:2], accumulate=True),
        lambda x, i: x.index_copy(0, i, x[:2]),
        lambda x, i: x.index_fill(0, i, 1.0),
        lambda x, i: x.scatter_add(0, i, x[:2]),
        lambda x, i: x.index_add(0, i, x[:2]),
        lambda x, i: x.scatter(0, i, 1.0),
        lambda x, i: x.take(i),
        lambda x, i: torch.nn.functional.one_hot(i, 3),
        lambda x, i: torch.nn.functional.nll_loss(x.view(1, 4), i[1:]),
    ],
)
def test_other_indices_out_of_range(read):
    x, i = torch.randn(4), torch.tensor([0, 9])
    with pytest.raises((RuntimeError, IndexError)):
        read(x, i)
    with pytest.raises((RuntimeError, IndexError)):
        read(x.to("lazuli"), i.to("lazuli")).cpu()


@pytest.mark.parametrize(
    ("name", "divide"),
    [
        ("floor_divide", lambda x, y: x // y),
        ("floor_divide", lambda x, y: 5 // y),
        ("remainder", lambda x, y: x % y),
        ("fmod", torch.fmod),
        ("trunc_divide", lambda x, y: torch.div(x, y, rounding_mode="trunc")),
    ],
)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
def test_division_of_integers_by_a_zero_among_many(name, divide, dtype):
    x, divisors = torch.full((70,), 7, dtype=dtype), torch.full((70,), 3, dtype=dtype)
    assert (divide(x.to("lazuli"), divisors.to("lazuli")).cpu() == divide(x, divisors)).all()
    divisors[66] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(x, divisors)
    x, divisors = x.to("lazuli"), divisors.to("lazuli")
    where = line_after()
    y = divide(x, divisors)
    z = (y + 1).sum()
    with pytest.raises(RuntimeError, match="ZeroDivisionError") as error:
        z.item()
    assert name in str(error.value)
    in_lambda = f"test_late.py:{divide.__code__.co_firstlineno}" if name != "fmod" else where
    assert in_lambda in str(error.value)
    assert (x + 1).sum().item() == 70 * 8
    assert divide(x, x).cpu().equal(divide(x.cpu(), x.cpu()))


def test_division_of_no_integers():
    x = torch.ones(0, dtype=torch.int64).to("lazuli")
    assert (x // torch.zeros((), dtype=torch.int64, device="lazuli")).numel() == 0
    assert (x.sum() // 1).item() == 0


@pytest.mark.parametrize("index", [4, -1])
@pytest.mark.parametrize("read", [torch.Tensor.gather, torch.Tensor.index_select])
def test_an_index_that_a_kernel_computes(read, index):
    x, i = torch.arange(4.0).to("lazuli"), torch.tensor([1, index + 1]).to("lazuli")
    where = line_after()
    y = read(x, 0, i - 1)
    with pytest.raises((RuntimeError, IndexError), match="index out of range") as error:
        (y * 2).cpu()
    assert where in str(error.value)
    assert read(x, 0, i * 0 + 3).tolist() == [3, 3]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("target", [4, -1])
def test_a_class_out_of_range(target, reduction):
    x = torch.randn(3, 4).to("lazuli").requires_grad_()
    targets = torch.tensor([1, -100, target]).to("lazuli")
    loss = torch.nn.functional.cross_entropy(x, targets, reduction=reduction)
    with pytest.raises(IndexError, match="Target is out of bounds"):
        loss.tolist()


def test_the_process_and_other_tensors_live_on(planned):
    bystander = torch.ones(3).to("lazuli")
    before = bystander * 2
    broken = fails_late()
    with pytest.raises((RuntimeError, IndexError)):
        broken.cpu()
    assert bystander.tolist() == [1, 1, 1]
    assert (bystander + 1).tolist() == [2, 2, 2]
    with pytest.raises((RuntimeError, IndexError), match="take"):
        broken.cpu()  # again, and the same
    with pytest.raises((RuntimeError, IndexError), match="take"):
        (broken + 1).sum().item()
    with contextlib.suppress(RuntimeError, IndexError):  # it may have failed with its trace
        assert before.tolist() == [2, 2, 2]
    del broken
    torch.lazuli.synchronize()
    assert (torch.ones(2, device="lazuli") + 1).tolist() == [2, 2]


def test_training_goes_on_after_a_failed_step():
    net = torch.nn.Linear(3, 2).to("lazuli")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        loss = net(torch.ones(2, 3, device="lazuli")).sum()
        if step == 1:
            loss = loss + fails_late().sum()
            with pytest.raises((RuntimeError, IndexError), match="take"):
                loss.item()
            continue
        loss.backward()
        optimizer.step()
        assert torch.isfinite(loss.detach().cpu())


def test_the_same_steps_with_other_numbers_go_on():
    numbers = torch.arange(1, 5, device="lazuli")
    for last in (0, 1, 0, 1):
        divisors = torch.tensor([1, 2, 1, last]).to("lazuli")
        quotients = numbers // divisors
        if last:
            assert quotients.tolist() == [1, 1, 3, 4]
        else:
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                quotients.tolist()


def test_synchronize_reports_too():
    broken = fails_late()
    with pytest.raises((RuntimeError, IndexError), match="take"):
        torch.lazuli.synchronize()
    del broken


def test_no_stack_of_ours_in_the_message():
    broken = fails_late()
    with pytest.raises(IndexError) as error:
        broken.cpu()
    assert "frame #" not in str(error.value)
    assert "Exception raised from" not in str(error.value)


def too_much():
    return torch.zeros(1 << 46, device="lazuli") + 1


def test_out_of_memory_names_the_line():
    torch.lazuli.synchronize()
    with pytest.raises(torch.OutOfMemoryError) as error:
        too_much().cpu()
    assert "memory" in str(error.value).lower() or "allocate" in str(error.value).lower()
    assert "test_late.py" in str(error.value)
    assert "frame #" not in str(error.value)
    assert (torch.ones(2, device="lazuli") + 1).tolist() == [2, 2]


def test_out_of_memory_is_told_each_time():
    torch.lazuli.synchronize()
    bystander = torch.ones(3).to("lazuli")
    with torch.lazuli.config.patch(max_pending_bytes=1 << 60):
        where = line_after()
        x = torch.zeros(1 << 46, device="lazuli") + 1
        for read in (lambda: x[:2].cpu(), lambda: x[1].item(), lambda: (x + 1).sum().item()):
            with pytest.raises(torch.OutOfMemoryError) as error:
                read()
            assert where in str(error.value)
    assert (bystander + 1).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.ones(3, device=d),
        lambda d: torch.ones(3, device=d) * 2 + 1,
        lambda d: torch.full((), 2.0, device=d).expand(3),
        lambda d: torch.rand(1, device=d).expand(3),
        lambda d: torch.rand(1, device=d).exp().expand(3),
        lambda d: torch.arange(3, device=d),
        lambda d: torch.eye(3, device=d),
        lambda d: torch.ones((), device=d).reshape(1).expand(3),
    ],
    ids=[
        "constant",
        "computed",
        "expanded-constant",
        "expanded",
        "expanded-computed",
        "range",
        "eye",
        "reshaped",
    ],
)
def test_an_index_beyond_what_needs_no_memory(make):
    """What is read is known without the index; eager looks at it all the same."""
    assert make("lazuli")[torch.tensor([2, 0], device="lazuli")].shape[0] == 2
    index = torch.tensor([7], device="lazuli")
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        make("lazuli")[index].cpu()


def test_an_index_into_one_number():
    index = torch.tensor([0, 0], device="lazuli")
    assert torch.ones((), device="lazuli").reshape(1)[index].tolist() == [1, 1]
    assert torch.ones(1, device="lazuli").index_select(0, index).tolist() == [1, 1]
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        torch.ones((), device="lazuli").reshape(1)[index + 1].cpu()


@pytest.mark.parametrize("name", ["svd", "eigh", "svdvals"])
def test_what_linear_algebra_does_not_solve(name, planned):
    """It is the error that eager raises, and every reader is told so."""
    x = torch.full((3, 3), float("nan")).to("lazuli")
    with pytest.raises(torch.linalg.LinAlgError):
        getattr(torch.linalg, name)(x.cpu())
    where = line_after()
    y = getattr(torch.linalg, name)(x)
    values = y if name == "svdvals" else y[name == "svd"]
    for _ in range(2):
        with pytest.raises(torch.linalg.LinAlgError, match=where):
            (values + 1).cpu()


def test_an_index_of_an_external_call_is_an_index_error():
    y = fails_late()
    for _ in range(2):
        with pytest.raises(IndexError, match="take"):
            y.cpu()


UNREAD = {
    "division": lambda d: of([4, 5], d) // of([0, 1], d),
    "division by a number": lambda d: of([4, 5], d) // of(0, d),
    "in place": lambda d: of([4, 5], d).clone().remainder_(of([0, 1], d)),
    "as an operand": lambda d: torch.fmod(of([4, 5], d), of([0, 1], d)).float().exp().sum(),
    "probability": lambda d: torch.bernoulli(torch.full((2,), 2.0).to(d)),
    "solve": lambda d: torch.linalg.inv(torch.zeros(2, 2).to(d)),
} | OUT_OF_RANGE


@pytest.mark.parametrize("name", UNREAD)
def test_an_error_of_a_value_that_nobody_reads(name):
    """It comes with the next read, which then has its own value."""
    with pytest.raises((RuntimeError, IndexError)):
        UNREAD[name]("cpu")
    torch.lazuli.synchronize()
    try:
        UNREAD[name]("lazuli")
    except (RuntimeError, IndexError):
        return  # it came at once
    other = torch.ones(3, device="lazuli") * 2
    with pytest.raises((RuntimeError, IndexError)):
        other.cpu()
    assert other.tolist() == [2, 2, 2]


def test_a_call_whose_result_nobody_reads():
    """Eager makes it, so it is made: it may do more than it says."""
    calls = []

    @torch.library.custom_op("lazuli_tests::noted", mutates_args=())
    def noted(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape)
        return x + 1

    noted.register_fake(torch.empty_like)
    x = torch.ones(3, device="lazuli")
    for _ in range(4):
        noted(x)
    torch.lazuli.synchronize()
    assert len(calls) == 4


def test_an_assertion_is_made_at_once():
    for _ in range(4):  # so that the call is known
        torch._assert_async(torch.ones((), device="lazuli"))
    with pytest.raises(RuntimeError, match="nonzero value"):
        torch._assert_async(torch.zeros((), device="lazuli"))


def test_memory_at_an_address_is_read_whatever_else_fails():
    """Who reads it can be told of no error; the next who asks Lazuli is."""
    x, y = torch.ones(3, dtype=torch.int64).to("lazuli"), torch.ones(4, device="lazuli") * 5
    x // torch.zeros_like(x)
    numbers = ctypes.cast(y.data_ptr(), ctypes.POINTER(ctypes.c_float))
    assert numbers[0] == 5
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        (y + 1).cpu()
    assert (y + 1).tolist() == [6] * 4


def test_what_nobody_reads_is_not_kept():
    """Eager frees each at once; a trace that would hold too many of them ends."""
    x, i = torch.ones(1 << 20).to("lazuli"), torch.arange(1 << 20).to("lazuli")
    torch.lazuli.synchronize()
    torch.lazuli.reset_peak_memory_stats()
    before = torch.lazuli.memory_allocated()
    for k in range(100):
        (x + k).gather(0, i)
    torch.lazuli.synchronize()
    assert torch.lazuli.max_memory_allocated() - before < 256 << 20


@pytest.mark.parametrize("way", ["call", "error", "error beside an address"])
def test_a_process_that_ends_before_a_read(way, tmp_path):
    script = tmp_path / "ends.py"
    script.write_text(
        textwrap.dedent(
            """
            import ctypes, sys, torch
            @torch.library.custom_op("lazuli_tests::told", mutates_args=())
            def told(x: torch.Tensor) -> torch.Tensor:
                print("told")
                return x + 1
            told.register_fake(torch.empty_like)
            x = torch.ones(3, dtype=torch.int64).to("lazuli")
            if sys.argv[1] == "call":
                for _ in range(3):
                    told(x)
            else:
                y = x.float() * 5
                x // torch.zeros_like(x)
                if "address" in sys.argv[1]:
                    ctypes.c_float.from_address(y.data_ptr()).value
            """
        )
    )
    ended = subprocess.run(
        [sys.executable, script, way], capture_output=True, text=True, check=True, timeout=100
    )
    assert ended.stdout.count("told") == (3 if way == "call" else 0)
    assert ("ZeroDivisionError" in ended.stderr) == (way != "call")
