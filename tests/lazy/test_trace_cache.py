"""Traces and kernels are found again: what repeats compiles nothing."""

import pytest
import torch

pytestmark = pytest.mark.usefixtures("planned_at_once")


def compiled(counters):
    return counters()["traces_compiled"], counters()["kernels_compiled"]


def step(device, size=8, number=1.5):
    x = torch.ones(size, size, device=device)
    return ((x * number + 1).relu() @ x).softmax(-1).sum().item()


def test_the_same_trace(counters, device):
    step(device)
    before = compiled(counters)
    for _ in range(5):
        step(device)
    assert compiled(counters) == before
    assert counters()["traces_reused"] >= 5


def test_other_numbers(counters, device):
    step(device)
    before = compiled(counters)
    values = {step(device, number=float(n)) for n in range(5)}
    assert compiled(counters) == before
    assert values


def test_other_sizes_compile_no_kernel(counters, device):
    for size in (64, 128):
        step(device, size=size)
    before = counters()["kernels_compiled"]
    step(device, size=192)
    step(device, size=256)
    assert counters()["kernels_compiled"] == before


def test_dropout_seeds(counters, device):
    def draw():
        return torch.nn.functional.dropout(torch.ones(64, device=device), 0.5).cpu()

    draw(), draw()
    before = compiled(counters)
    assert not torch.equal(draw(), draw())
    assert compiled(counters) == before


def test_what_is_alive_decides(device):
    """The same ops with another set of living results give right results too."""
    for keep in ([0], [1], [0, 1], [2], [0, 2], [0, 1, 2], [1], [0]):
        x = torch.ones(4, device=device)
        values = [x + 1, x * 3, (x + 1) * (x * 3)]
        kept = [values[i] for i in keep]
        del values
        assert [k[0].item() for k in kept] == [[2, 3, 6][i] for i in keep]


def test_a_value_used_in_place_of_another(device):
    """Two traces of equal ops whose operands are wired differently."""
    for wire in range(2):
        a, b = torch.full((4,), 2.0, device=device), torch.full((4,), 5.0, device=device)
        c = a - b if wire else b - a
        assert c[0].item() == (-3 if wire else 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_dtypes_do_not_mix_up(dtype, device):
    x = torch.tensor([1, 2, 3]).to(device, dtype)
    assert (x * 2 + x).dtype == dtype
    assert (x * 2 + x).tolist() == [3, 6, 9]


def test_inputs_of_another_layout(device):
    x = torch.arange(12.0).view(3, 4)
    for layout in (x, x.t(), x[:, ::2], x[1:], x.expand(2, 3, 4)):
        assert torch.equal((layout.to(device) * 2 + 1).cpu(), layout * 2 + 1)


def test_donated_inputs_are_not_read_again(device):
    x = torch.ones(1000, device=device)
    torch.lazuli.synchronize()
    for _ in range(5):
        y = x  # a second reference
        x = x + 1
        torch.lazuli.synchronize()
        assert (x - y).sum().item() == 1000


def test_traces_are_forgotten_and_learned_again(counters, device):
    """With few to keep: also those with external calls, and while one is pending."""

    def work(n, where=device):
        x = torch.arange(n + 2.0).view(-1, 1).to(where)
        return (torch.cdist(x, x) + torch.renorm(x, 2, 0, 1.0)).sum()

    expected = [work(n, "cpu").item() for n in range(10)]
    with torch.lazuli.config.patch(max_traces=4):
        pending = work(3)
        for _ in range(2):
            assert [work(n).item() for n in range(10)] == pytest.approx(expected)
        assert pending.item() == pytest.approx(expected[3])
    assert counters()["traces_compiled"] > 15


@pytest.mark.parametrize(
    "setting", [{"fusion": False}, {"disable_passes": "simplify"}, {"max_packed_bytes": 0}], ids=str
)
def test_settings_that_change_the_code_hold_for_known_traces(setting, device, counters):
    """And the code that there was serves again when they are set back."""
    x = torch.randn(7).to(device)

    def compiled():
        before = counters()["traces_compiled"]
        (x * 2 + 1).tanh().cpu()
        return counters()["traces_compiled"] - before

    compiled()
    assert compiled() == 0
    with torch.lazuli.config.patch(**setting):
        assert compiled() == 1
        assert compiled() == 0
    assert compiled() == 0


def test_a_known_trace_is_dumped_when_that_is_asked_for(device, tmp_path):
    def trace():
        (torch.ones(9, device=device) * 3 + 1).cpu()

    trace()
    with torch.lazuli.config.patch(debug=f"trace,plan:{tmp_path}"):
        trace()
        trace()
    (folder,) = tmp_path.iterdir()
    assert {file.name for file in folder.iterdir()} == {"01-trace.lzir", "02-plan.txt"}


def test_another_number_of_threads_is_another_plan(counters):
    """What was planned for one thread would keep to it."""
    before = torch.get_num_threads()
    x = torch.ones(300, 200, device="lazuli")
    torch.lazuli.synchronize()
    made = compiled(counters)[0]
    try:
        for threads, plans in [(1, 1), (2, 2), (1, 2), (2, 2)]:
            torch.set_num_threads(threads)
            (x @ x.t()).relu().sum().item()
            assert compiled(counters)[0] - made == plans
    finally:
        torch.set_num_threads(before)
