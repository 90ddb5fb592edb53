"""torch.compile(backend="lazuli"): graphs that are recorded once, and then as a whole."""

import gc
import threading

import pytest
import torch
from compiled_graphs import check, compiled, fresh, on_cpu  # noqa: F401
from differential import both
from torch.utils.checkpoint import checkpoint
from torch_lazuli.compiler.captured import Captured, _Reader
from torch_lazuli.compiler.host import Host
from torch_lazuli.operators import ops

WHERE = ["lazuli", ops._backing().type]


@pytest.fixture
def recorded(monkeypatch):
    """A list that grows with each graph that is recorded op by op, by whether it could be kept."""
    calls = []
    record = Captured._record

    def counted(self, *arguments):
        known = self.recorded
        results = record(self, *arguments)
        calls.append(self.recorded > known)
        return results

    monkeypatch.setattr(Captured, "_record", counted)
    return calls


@pytest.mark.parametrize("where", WHERE)
def test_a_graph_is_recorded_op_by_op_once(where, recorded):
    def f(x, w):
        return torch.nn.functional.gelu(x @ w).softmax(-1)

    calls = [(torch.randn(4, 5), torch.randn(5, 3)) for _ in range(4)]
    check(f, *calls, where=where)
    assert recorded == [True]


@pytest.mark.parametrize("where", WHERE)
def test_training(where, recorded):
    def train(on):
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3, bias=False),
            torch.nn.BatchNorm2d(4),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(4 * 36, 7),
            torch.nn.LayerNorm(7),
        ).to("cpu" if on == "cpu" else where)
        run = model if on == "cpu" else compiled(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        losses = []
        for _ in range(6):
            loss = run(torch.randn(2, 3, 8, 8).to(next(model.parameters()).device)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return torch.tensor(losses), *[b.cpu().double() for b in model.state_dict().values()]

    eager, ours = both(train)
    for e, o in zip(eager, ours, strict=True):
        torch.testing.assert_close(o, e, rtol=2e-3, atol=2e-5)
    assert recorded == [True, True]  # forward and backward


def test_gradients_of_an_encoder_with_masks():
    def train(on):
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).to(on)
        run = layer if on == "cpu" else compiled(layer)
        out = []
        for length in (3, 4, 4):
            padding = torch.arange(5).expand(2, 5) >= length
            loss = run(torch.randn(2, 5, 8).to(on), src_key_padding_mask=padding.to(on))
            loss[:, :length].square().sum().backward()
            out += [p.grad.cpu() for p in layer.parameters()]
            layer.zero_grad()
        return out

    eager, ours = both(train)
    torch.testing.assert_close(ours, eager, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("where", WHERE)
def test_results_that_are_views(where):
    def f(x):
        y = x * 2
        return x, x.t(), x[1:], y, y.t(), y[:, 1:], y.chunk(2)[1], y.view(torch.int32)

    check(f, *[(torch.randn(4, 3),) for _ in range(3)], where=where)


@pytest.mark.parametrize("where", WHERE)
def test_results_share_memory_with_inputs(where):
    run = compiled(lambda x: (x.t(), x * 2))
    for _ in range(3):
        x = torch.zeros(2, 3, device=where)
        t, _ = run(x)
        t.add_(1)
        assert x.cpu().tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("where", WHERE)
def test_results_that_share_memory(where):
    def f(x):
        y = x + 1
        return y, y[0]

    run = compiled(f)
    for _ in range(3):
        y, row = run(torch.zeros(2, 2, device=where))
        row.mul_(5)
        assert y.cpu().tolist() == [[5, 5], [1, 1]]


@pytest.mark.parametrize("where", WHERE)
def test_inputs_that_are_written_to(where, recorded):
    def f(cache, x, i):
        cache[:, i] = x[:, None]
        x.add_(1)
        return cache.sum(1) * x

    run = compiled(f)
    ours, eager = torch.zeros(2, 4, device=where), torch.zeros(2, 4)
    for i in range(4):
        x = torch.randn(2)
        a, b = x.to(where, copy=True), x.clone()
        version = a._version
        at = torch.tensor([i])
        got = run(ours, a, at.to(where))
        torch.testing.assert_close(got.cpu(), f(eager, b, at))
        torch.testing.assert_close(ours.cpu(), eager)
        torch.testing.assert_close(a.cpu(), b)
        assert a._version > version
    assert recorded == [True]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("view", ["t", "gaps", "columns", "expanded", "offset"])
def test_inputs_that_are_views(where, view):
    def given(x):
        return {
            "t": x.t(),
            "gaps": x[:, :-1],
            "columns": x.t()[:, 1:],
            "expanded": x[:1].expand(6, 4),
            "offset": x[2:],
        }[view]

    run = compiled(lambda x: (x.exp().sum(0), x + 1, x.t()))
    for _ in range(3):
        x = torch.randn(6, 4)
        v = given(x)
        got = run(given(x.to(where)))
        expected = (v.exp().sum(0), v + 1, v.t())
        torch.testing.assert_close(on_cpu(got), expected)
        assert got[1].stride() == expected[1].stride() or view in ("expanded", "columns")


@pytest.mark.parametrize("where", WHERE)
def test_views_that_are_written_to(where):
    def f(x):
        x.mul_(2)
        return x.sum()

    run = compiled(f)
    for _ in range(3):
        base = torch.ones(4, 4, device=where)
        run(base[:, 1:3])
        assert base.sum().item() == 24


@pytest.mark.parametrize("where", WHERE)
def test_memory_beyond_an_input(where):
    run = compiled(lambda x: x.as_strided((3,), (1,), 1) * 2)
    for _ in range(3):
        x = torch.arange(10.0).to(where)
        assert run(x[4:6]).tolist() == [2, 4, 6]


@pytest.mark.parametrize("where", WHERE)
def test_windows_on_what_a_graph_made(where):
    """The derivative of a mean over all points of an image writes to such a window."""

    def f(x, y):
        made = x * 2
        window = made.as_strided((2, 3), (1, 2), 1) + y.mean((-1, -2)).as_strided((2, 3), (1, 0))
        return window, made.as_strided_scatter(y[0, 0, 0], (2,), (3,))

    run = compiled(f)
    for step in range(4):
        x, y = torch.arange(8.0) + step, torch.arange(16.0).reshape(2, 2, 2, 2) * step
        before = torch.lazuli.metrics()["ops_recorded"]
        got = run(x.to(where), y.to(where))
        recorded = torch.lazuli.metrics()["ops_recorded"] - before
        torch.testing.assert_close([g.cpu() for g in got], list(f(x, y)))
    assert recorded <= 3 or where == "cpu"  # the inputs, and the whole graph


def test_a_graph_larger_than_what_may_be_pending():
    """It is recorded as one whole all the same, and then repeated."""

    def f(x):
        for _ in range(60):
            x = (x * 1.01).sin() + 1
        return x

    run = compiled(f)
    with torch.lazuli.config.patch(max_pending_ops=40):
        for step in range(5):
            x = torch.arange(8.0) + step
            before = torch.lazuli.metrics()["ops_recorded"]
            got = run(x.to("lazuli"))
            recorded = torch.lazuli.metrics()["ops_recorded"] - before
            torch.testing.assert_close(got.cpu(), f(x))
    assert recorded <= 2


@pytest.mark.parametrize("where", WHERE)
def test_inputs_that_overlap(where):
    def f(x, y):
        x.add_(1)
        return x * y

    run = compiled(f)
    for _ in range(3):
        a, b = torch.arange(6.0), torch.arange(6.0).to(where)
        expected = f(a[1:5], a[2:6])
        torch.testing.assert_close(run(b[1:5], b[2:6]).cpu(), expected)
        torch.testing.assert_close(b.cpu(), a)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("kind", ["conj", "neg", "complex"])
def test_inputs_of_other_kinds(where, kind):
    def given():
        x = torch.tensor([1 + 2j, 3 - 1j]).to(where)
        return {"conj": x.conj(), "neg": x.conj().imag, "complex": x}[kind]

    run = compiled(lambda x: x + 1)
    for _ in range(3):
        assert torch.equal(run(given()).cpu(), given().cpu() + 1)


@pytest.mark.parametrize("where", WHERE)
def test_strides_of_dimensions_of_one_element(where):
    run = compiled(lambda x: x + 1)
    x = torch.randn(4, 6)[:, :, None].transpose(0, 2)
    for _ in range(2):
        assert run(x.to(where)[:]).stride() == (x.to(where)[:] + 1).stride()


def test_other_threads_leave_what_is_recorded_alone(monkeypatch):
    run_node = _Reader.run_node

    def disturbed(self, node):
        thread = threading.Thread(target=lambda: torch.rand(5, device="lazuli"))
        thread.start()
        thread.join()
        return run_node(self, node)

    monkeypatch.setattr(_Reader, "run_node", disturbed)
    run = compiled(lambda x: x + torch.rand_like(x))
    x = torch.zeros(3, device="lazuli")
    run(x)
    monkeypatch.setattr(_Reader, "run_node", run_node)
    torch.manual_seed(1)
    got = run(x), run(x), run(x)
    torch.manual_seed(1)
    expected = [x + torch.rand_like(x) for _ in range(3)]
    torch.testing.assert_close([*got], expected, rtol=0, atol=0)


def test_the_same_tensor_twice():
    run = compiled(lambda x, y: x - 2 * y)
    x, y = torch.tensor([1.0]).to("lazuli"), torch.tensor([5.0]).to("lazuli")
    assert [run(x, x).item(), run(x, y).item(), run(y, y).item()] == [-1, -9, -5]
    assert [run(x, x).item(), run(x, y).item(), run(y, y).item()] == [-1, -9, -5]


def test_random_numbers_are_drawn_anew(recorded):
    run = compiled(lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x))
    x = torch.ones(1000, device="lazuli")
    torch.manual_seed(3)
    first, second = run(x).cpu(), run(x).cpu()
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    torch.testing.assert_close(run(x).cpu(), first, rtol=0, atol=0)
    torch.testing.assert_close(run(x).cpu(), second, rtol=0, atol=0)
    assert recorded == [True]


def test_a_loop_of_a_graph_ends_traces_soon():
    """So that the device computes while more is recorded."""

    @torch.no_grad()
    def f(x, w):
        for _ in range(10):
            x = torch.tanh(x @ w)
        return x

    run = compiled(f)
    x, w = torch.randn(4, 8).to("lazuli"), torch.randn(8, 8).to("lazuli") / 8
    expected = f(x.cpu(), w.cpu())
    for _ in range(3):
        torch.lazuli.reset_metrics()
        kept = [run(x, w) for _ in range(30)]
        syncs = torch.lazuli.metrics()["syncs"]
        for got in kept:
            torch.testing.assert_close(got.cpu(), expected)
    assert syncs.get("repetition", 0) + syncs.get("end of a known trace", 0) >= 2, syncs


@pytest.mark.parametrize("where", WHERE)
def test_a_checkpoint_of_a_compiled_function(where):
    run = compiled(lambda x: torch.nn.functional.dropout(x, 0.5))
    for _ in range(6):
        x = torch.ones(200, device=where, requires_grad=True)
        y = checkpoint(lambda x: run(x).sin(), x, use_reentrant=False)
        y.sum().backward()
        assert torch.equal(y != 0, x.grad != 0)


@pytest.mark.parametrize("backend", ["lazuli", "inductor"])
def test_a_checkpoint_in_a_compiled_function(backend):
    def f(x):
        return checkpoint(
            lambda x: torch.nn.functional.dropout(x * 2, 0.5).sin(), x, use_reentrant=False
        )

    run = torch.compile(f, backend=backend)
    for _ in range(4):
        x = torch.ones(200, device="lazuli", requires_grad=True)
        y = run(x)
        y.sum().backward()
        assert torch.equal(y != 0, x.grad != 0)


def test_random_numbers_are_those_of_the_device(monkeypatch):
    def draw():
        torch._dynamo.reset()
        torch.manual_seed(5)
        model = torch.nn.Sequential(torch.nn.Linear(4, 40), torch.nn.Dropout(0.3)).to("lazuli")
        run = compiled(model)
        return [run(torch.ones(2, 4, device="lazuli")).sum().item() for _ in range(4)]

    at_once = draw()
    monkeypatch.setattr("torch_lazuli.compiler.captured.may_be_captured", lambda *_: False)
    assert draw() == at_once


def test_a_random_number_of_the_cpu():
    def f(x):
        return x * torch.rand(()).item() if False else x + torch.rand((), device="cpu")

    run = torch.compile(f, backend="lazuli")
    x = torch.zeros(2, device="lazuli")
    assert len({run(x).sum().item() for _ in range(4)}) == 4


def test_a_number_of_the_cpu_that_changes():
    run = compiled(lambda x, s: x * s)
    x = torch.ones(2, device="lazuli")
    assert [run(x, torch.tensor(float(i))).sum().item() for i in range(4)] == [0, 2, 4, 6]


def test_a_branch_that_data_decide():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    check(f, *[(torch.full((3,), s),) for s in (1.0, -1.0, 2.0, -2.0)])


def test_a_branch_that_data_decide_on_the_cpu():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), x.t()

    for _ in range(2):
        check(f, *[(torch.full((3, 2), s),) for s in (1.0, -1.0, 2.0)], where="cpu")


def test_a_loop_that_data_decide():
    def f(x):
        while x.sum() < 10:
            x = x * 2
        return x

    run = torch.compile(f, backend="lazuli")
    for start in (1.0, 2.0, 30.0, 1.0):
        x = torch.full((2,), start)
        assert torch.equal(run(x.to("lazuli")).cpu(), f(x))


def test_sizes_that_data_decide():
    def f(x):
        return x[x > 0].sum(), x.nonzero()

    run = torch.compile(f, backend="lazuli")
    for _ in range(4):
        x = torch.randn(20)
        torch.testing.assert_close(on_cpu(run(x.to("lazuli"))), f(x))


def test_an_operator_of_somebody_else():
    calls = []

    @torch.library.custom_op("lazuli_tests::noted_double", mutates_args=())
    def noted_double(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape)
        return x * 2

    noted_double.register_fake(torch.empty_like)
    run = compiled(lambda x: noted_double(x) + 1)
    for i in range(3):
        assert run(torch.full((2,), float(i), device="lazuli")).tolist() == [2 * i + 1] * 2
    assert len(calls) == 3


@pytest.mark.parametrize("where", WHERE)
def test_sizes_that_change(where, recorded):
    run = compiled(lambda x: torch.cat([x, x * 2]).softmax(-1).sum(0), dynamic=True)
    for n in (3, 5, 9, 5, 3, 9):
        x = torch.randn(n, 4)
        expected = torch.cat([x, x * 2]).softmax(-1).sum(0)
        torch.testing.assert_close(run(x.to(where)).cpu(), expected)
    assert recorded == [True] * 3


def test_results_that_are_sizes():
    run = torch.compile(lambda x: (x * 2, x.shape[0] * 3), backend="lazuli", dynamic=True)
    for n in (3, 5, 3):
        y, size = run(torch.ones(n, device="lazuli"))
        assert (y.sum().item(), size) == (2 * n, 3 * n)


def test_constants_of_a_graph():
    def f(x):
        return x + torch.tensor([1.0, 2.0], device=x.device)

    check(f, *[(torch.randn(2),) for _ in range(3)])


@pytest.mark.parametrize("where", WHERE)
def test_numbers_in_the_code(where, recorded):
    """A result that is made of them may be written to."""

    def f(x):
        steps = torch.tensor([1.0, 2.0, 4.0], device=x.device)
        return x * steps, steps * torch.tensor(3.0), steps

    run = compiled(f)
    for _ in range(3):
        x = torch.randn(3)
        got = run(x.to(where))
        torch.testing.assert_close(on_cpu(got), f(x))
        got[2].zero_()
    assert recorded[:1] == [True]


def test_external_calls_are_recorded_too(recorded):
    def f(x):
        return torch.linalg.matrix_exp(x) @ x

    check(f, *[(torch.randn(3, 3),) for _ in range(6)])
    assert recorded[-1]


@pytest.mark.parametrize("where", WHERE)
def test_inference_mode(where):
    run = compiled(torch.nn.Linear(3, 2).to(where))
    with torch.inference_mode():
        x = torch.ones(1, 3, device=where)
        results = [run(x) for _ in range(3)]
    assert all(r.is_inference() for r in results) or where == "cpu"
    assert len({tuple(r.flatten().tolist()) for r in results}) == 1


def test_autocast():
    model = torch.nn.Linear(8, 8)
    ours = torch.nn.Linear(8, 8).to("lazuli")
    ours.load_state_dict(model.state_dict())
    run = torch.compile(ours, backend="lazuli")
    for _ in range(3):
        x = torch.randn(4, 8)
        with torch.autocast("cpu", torch.bfloat16):
            expected = model(x)
        with torch.autocast("lazuli", torch.bfloat16):
            got = run(x.to("lazuli"))
        assert got.dtype == torch.bfloat16
        torch.testing.assert_close(got.cpu(), expected, rtol=2e-2, atol=2e-2)


def test_an_error_in_between():
    def f(x, w):
        return (x @ w).relu()

    run = torch.compile(f, backend="lazuli", dynamic=False)
    x, w = torch.randn(2, 3), torch.randn(3, 4)
    torch.testing.assert_close(run(x.to("lazuli"), w.to("lazuli")).cpu(), f(x, w))
    with pytest.raises(RuntimeError):
        run(x.to("lazuli"), x.to("lazuli"))
    torch.testing.assert_close(run(x.to("lazuli"), w.to("lazuli")).cpu(), f(x, w))


def test_memory_of_the_cpu_is_not_copied():
    kept = torch.zeros(1000)
    run = compiled(lambda x: (x, x.view(10, 100), x * 2))
    same, view, _ = run(kept)
    assert same is kept
    assert view.data_ptr() == kept.data_ptr()


def test_writing_to_results_leaves_inputs_of_the_cpu_alone():
    run = compiled(lambda x: (x.clone(), x + 0))
    for _ in range(3):
        x = torch.zeros(64)
        for r in run(x):
            r.add_(1)
        assert x.sum() == 0


def test_parameters_of_the_cpu_may_be_written_behind_torchs_back():
    model = torch.nn.Linear(64, 64, bias=False)
    run = compiled(model)
    x = torch.ones(8, 64)
    for i in range(6):
        model.weight.data.fill_(i)
        with torch.no_grad():
            assert run(x).unique().tolist() == [64.0 * i]


def test_lines_are_the_programs(device):
    def f(x):
        y = torch.linalg.matrix_exp(x)  # here
        return y + 1

    run = compiled(f)
    torch.lazuli.explain()
    for _ in range(6):
        run(torch.randn(3, 3, device=device)).cpu()
    here = f.__code__.co_firstlineno + 1
    external = [e.where for e in torch.lazuli.explain() if e.kind == "external"]
    assert any(where.endswith(f"test_compile_backend.py:{here}") for where in external)


def test_other_devices_are_left_alone():
    run = compiled(lambda x: x * 2)
    assert run(torch.ones(2, device="meta")).device.type == "meta"


def test_options():
    with pytest.raises(Exception, match="the backend lazuli has no options, not depth"):
        torch.compile(lambda x: x + 1, backend="lazuli", options={"depth": 1})(torch.ones(2))
    run = torch.compile(lambda x: x + 1, backend="lazuli", mode="max-autotune")
    assert run(torch.ones(2, device="lazuli")).tolist() == [2, 2]


def test_it_is_in_the_list():
    assert "lazuli" in torch._dynamo.list_backends()


def test_default_backend_takes_it(recorded):
    run = torch.compile(lambda x: x.sin() + 1)
    for _ in range(3):
        run(torch.ones(2, device="lazuli")).cpu()
    assert recorded == [True]


def test_graphs_are_freed():
    def kept():
        return sum(type(o) in (Captured, Host) for o in gc.get_objects())

    before = kept()
    run = compiled(lambda x: x + 1)
    run(torch.ones(2, device="lazuli"))
    assert kept() == before + 1
    del run
    torch._dynamo.reset()
    gc.collect()
    assert kept() <= before
