"""What a taken-over program sees and gets. Each test is a program, run in a process of its own."""

import pytest
from programs import output, run

OWN = """
import io, sys, warnings
import numpy as np
import torch
from torch import nn
own = torch._C.TensorBase.device.__get__
def is_ours(t): return own(t).type == "lazuli"
"""


@pytest.fixture
def check(tmp_path):
    """Runs statements under the launcher; they assert."""

    def run_program(body: str, *options: str):
        path = tmp_path / "program.py"
        path.write_text(OWN + body)
        done = run(*options, path)
        assert done.returncode == 0, done.stderr
        return done

    return run_program


def test_cuda_where_torch_takes_devices(check):
    check("""
for t in (torch.zeros(2, device="cuda"), torch.ones(2).cuda(), torch.ones(2).to("cuda:0"),
          torch.ones(2).to(device=torch.device("cuda")), torch.ones(2).cuda(0),
          torch.as_tensor([1.0], device="cuda"), torch.ones(2).new_zeros(3, device="cuda"),
          torch.empty_like(torch.ones(2), device="cuda"), nn.Linear(2, 2, device="cuda").weight,
          nn.Linear(2, 2).cuda().weight, nn.Linear(2, 2).to("cuda").bias,
          torch.from_numpy(np.ones(2)).to("cuda"), torch.cuda.FloatTensor([1, 2]),
          torch.ones(2).type("torch.cuda.HalfTensor"), torch.fft.fftfreq(4, device="cuda"),
          torch.arange(3, device="cuda"), torch.randn(3, device="cuda")):
    assert is_ours(t), t
    assert t.device == torch.device("cuda", 0) and t.is_cuda and t.get_device() == 0
    assert not t.is_cpu and t.type().startswith("torch.cuda.")
with torch.device("cuda"):
    assert is_ours(torch.zeros(2))
assert not is_ours(torch.zeros(2)) and torch.zeros(2).device.type == "cpu"
assert torch.ones(2).cuda().cpu().device.type == "cpu"
assert repr(torch.ones(1).cuda()) == "tensor([1.], device='cuda:0')"
assert isinstance(torch.ones(1).cuda(), torch.cuda.FloatTensor)
assert torch.Generator(device="cuda").device.type == "lazuli"
assert isinstance(torch.default_generator, torch.Generator)
try:
    torch.zeros(1, device="cuda:1")
except RuntimeError as error:
    assert "invalid device ordinal" in str(error)
else:
    raise AssertionError
torch.set_default_device("cuda")
assert is_ours(torch.zeros(2)) and torch.get_default_device() == torch.device("cuda", 0)
""")


def test_what_torch_cuda_says(check):
    check("""
cuda = torch.cuda
assert cuda.is_available() and cuda.device_count() == 1 and cuda.current_device() == 0
assert cuda.is_bf16_supported() and cuda.get_device_capability() >= (8, 0)
assert cuda.get_device_properties("cuda:0").total_memory > 0 and cuda.get_device_name(0)
with cuda.device(0):
    cuda.set_device("cuda:0")
x = torch.randn(1000, device="cuda") * 0 + 2
cuda.synchronize()
assert cuda.memory_allocated() >= 4000 <= cuda.max_memory_allocated()
assert cuda.memory_stats()["allocated_bytes.all.peak"] == cuda.max_memory_allocated()
assert torch.accelerator.memory_allocated() == cuda.memory_allocated()
cuda.empty_cache(); cuda.reset_peak_memory_stats(); assert cuda.memory_summary()
stream = cuda.Stream(); stream.wait_stream(cuda.current_stream())
start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
with cuda.stream(stream):
    start.record(); y = x + 1; end.record()
end.synchronize()
assert start.elapsed_time(end) > 0 and y.sum().item() == 3000
cuda.manual_seed_all(3); state = cuda.get_rng_state(); a = torch.randn(4, device="cuda")
cuda.set_rng_state(state); assert torch.equal(a, torch.randn(4, device="cuda"))
with torch.random.fork_rng(devices=[0]):
    torch.randn(3, device="cuda")
with cuda.nvtx.range("x"):
    cuda.nvtx.range_push("y"); cuda.nvtx.range_pop()
assert torch.accelerator.current_accelerator().type == "cuda"
""")


def test_mixed_precision(check):
    check("""
x, layer = torch.ones(2, 3, device="cuda"), nn.Linear(3, 2).cuda()
with torch.autocast("cuda"):
    assert torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
    assert layer(x).dtype == torch.float16 == torch.get_autocast_dtype("cuda")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    with torch.cuda.amp.autocast(dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    scaler = torch.cuda.amp.GradScaler()
assert scaler.is_enabled() and torch.amp.GradScaler().is_enabled()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
before = layer.weight.detach().clone()
scaler.scale(layer(x).sum()).backward(); scaler.step(optimizer); scaler.update()
assert not torch.equal(before, layer.weight)
scaler.scale(layer(x).sum() * float("inf")).backward(); scaler.step(optimizer); scaler.update()
assert scaler.get_scale() == 2.0**15 and torch.isfinite(layer.weight).all()
""")


def test_tensors_go_to_libraries_of_the_host(check):
    check("""
x = torch.arange(6.0, device="cuda").reshape(2, 3)
for array in (x.numpy(), np.asarray(x), np.from_dlpack(x), np.array(x.t()).T):
    assert (array == np.arange(6).reshape(2, 3)).all()
assert np.asarray(x, dtype=np.int64).dtype == np.int64
assert is_ours(torch.from_dlpack(x))
try:
    x.requires_grad_().numpy()
except RuntimeError as error:
    assert "requires grad" in str(error)
else:
    raise AssertionError
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return torch.full((2,), float(i)), i
for workers in (0, 2):
    batches = list(torch.utils.data.DataLoader(Numbers(), 4, pin_memory=True, num_workers=workers))
    assert all(x.is_pinned() and x.device.type == "cpu" for x, _ in batches)
    assert [b.cuda(non_blocking=True).sum().item() for b, _ in batches] == [12.0, 44.0]
""")


def test_a_program_that_names_no_device(check):
    check(
        """
torch.manual_seed(0)
layer, x = nn.Linear(3, 2), torch.randn(4, 3)
assert all(map(is_ours, (x, layer.weight, torch.zeros(2), torch.rand(3), torch.tensor([1]))))
assert x.device == torch.device("cpu") and x.is_cpu and not x.is_cuda and x.get_device() == -1
assert x.cpu() is x and is_ours(x.to("cpu")) and is_ours(torch.zeros(2, device="cpu"))
assert x.type() == "torch.FloatTensor" and "device" not in repr(x)
shared = np.ones((4, 3), np.float32)
host = torch.from_numpy(shared)
assert is_ours(host + x) and torch.equal(host + x, x + 1)
host += x
assert (shared == (1 + x).numpy()).all()
data = torch.utils.data.TensorDataset(x, torch.arange(4))
(batch, labels), = torch.utils.data.DataLoader(data, 4, num_workers=2)
assert is_ours(batch) and torch.equal(batch, x)
packed = nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3, 1), torch.tensor([3, 2]), True)
assert is_ours(packed.data) and packed.batch_sizes.tolist() == [2, 2, 1]
file = io.BytesIO(); torch.save(layer.state_dict(), file); file.seek(0)
assert b"lazuli" not in file.getvalue()
assert is_ours(torch.load(file)["weight"])
with torch.device("meta"):
    assert torch.zeros(2).is_meta and nn.Linear(2, 2).weight.is_meta
random = torch.get_rng_state(); torch.set_rng_state(random)
with torch.autocast("cpu"):
    assert layer(x).dtype == torch.bfloat16
# From here on cpu means the host.
y = x.to("cuda")
assert y.is_cuda and not is_ours(torch.zeros(2)) and not is_ours(x.to("cpu"))
assert is_ours(torch.zeros(4, 3) + x)
""".replace('"cuda"', '"cu" "da"')
        .replace(".is_cuda", ".is_cpu is False")
        .replace("not x.is_cpu is False", "x.is_cpu")
    )


def test_numbers_of_a_program_that_names_no_device_are_eagers(tmp_path):
    program = tmp_path / "draws.py"
    program.write_text("""
import torch
from torch import nn
torch.manual_seed(0)
print(torch.randn(3), torch.randperm(5), nn.Conv2d(1, 2, 3).weight.flatten()[:4])
x = torch.randn(3, generator=torch.Generator().manual_seed(5))
print(x, torch.randn_like(x), torch.bernoulli(torch.full((4,), 0.5)), torch.empty(3).normal_())
print(torch.multinomial(torch.ones(4), 3), torch.distributions.Normal(0.0, 1.0).sample((2,)))
nn.init.trunc_normal_(x); nn.init.orthogonal_(y := torch.empty(2, 2)); print(x.round(decimals=3))
""")
    assert output(program) == output(program, launched=False)


def test_which_devices_are_taken_over(check):
    check(
        "x = torch.ones(2); assert not is_ours(x)  # cuda",
    )
    check("x = torch.ones(2); assert not is_ours(x)", "--keep", "cpu")
    check("x = torch.ones(2); assert is_ours(x)", "--from", "cpu")
    check(
        "assert is_ours(torch.ones(2)) and torch.ones(2).cuda().is_cuda\n"
        "assert is_ours(torch.ones(2))",
        "--from",
        "cuda,cpu",
    )


def test_take_over_in_code(tmp_path):
    code = (
        "import torch; torch.lazuli.take_over('cuda'); x = torch.ones(2).cuda(); "
        "print(x.device, x.sum().item())"
    )
    assert output("-c", code, launched=False) == "cuda:0 2.0\n"


def test_what_cannot_be_mapped_is_said_by_line(check):
    done = check("""
for _ in range(2):
    torch.cuda.utilization()
    step = torch.cuda.make_graphed_callables(torch.sin, (torch.ones(2).cuda(),))
model = nn.DataParallel(nn.Linear(2, 2).cuda(), device_ids=[0, 1])
assert is_ours(model(torch.ones(3, 2)))
try:
    torch.cuda.CUDAGraph()
except NotImplementedError:
    pass
""")
    lines = [line.split("program.py:")[1] for line in done.stderr.splitlines() if "lazuli:" in line]
    assert [int(line.split(":")[0]) for line in lines] == [10, 11, 12, 15]


def test_nested_tensors(check):
    check(
        """
from torch.nested import as_nested_tensor, nested_tensor
rows = [torch.ones(2, 3), torch.ones(4, 3)]
norm, cpu = nn.LayerNorm(3), rows[0].device
for nested in (nested_tensor(rows, layout=torch.jagged, device=cpu),
               nested_tensor(rows, layout=torch.jagged),
               as_nested_tensor(rows, torch.float32, cpu, layout=torch.jagged)):
    assert is_ours(nested.values()) and is_ours(nested.offsets()), nested
    assert is_ours(norm(nested).values())
numbers = nested_tensor([[1.0, 2.0], [3.0]], layout=torch.jagged)
assert is_ours(numbers.values()) and is_ours(numbers.offsets())
assert is_ours(nested_tensor([[1.0], [2.0]], device="cuda").values())
""",
        "--from",
        "cuda,cpu",
    )
