"""Where a taken-over program's work happens: contexts, threads, random draws, files, loaders."""

import pytest
from programs import numbers, output, run

OWN = """
import io, threading
import torch
from torch import nn
own = torch._C.TensorBase.device.__get__
def is_ours(t): return own(t).type == "lazuli"
def read_back(value):
    file = io.BytesIO(); torch.save(value, file); file.seek(0)
    return torch.load(file, weights_only=False)
"""


def check(tmp_path, body: str, *options: str) -> None:
    """Runs statements under the launcher; they assert."""
    path = tmp_path / "program.py"
    path.write_text(OWN + body)
    output(*options, path)


def test_contexts_of_a_device_are_the_programs(tmp_path):
    check(
        tmp_path,
        """
with torch.device("cpu"):
    assert is_ours(torch.zeros(2))
def make(_=None):
    with torch.device("cpu"):
        return torch.zeros(2)
assert is_ours(make())
(made,) = torch.utils._pytree.tree_map(make, [0])  # torch calls the program
assert is_ours(made)
torch.set_default_device("cpu")
assert is_ours(torch.zeros(2))
""",
    )


def test_a_thread_that_loads_changes_no_other(tmp_path):
    check(
        tmp_path,
        """
inside, finish = threading.Event(), threading.Event()
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 1
    def __getitem__(self, i):
        inside.set(); finish.wait()
        assert not is_ours(torch.zeros(1))
        return torch.zeros(1)
batches = []
load = lambda: batches.extend(torch.utils.data.DataLoader(Slow()))
thread = threading.Thread(target=load)
thread.start(); inside.wait()
here = is_ours(torch.zeros(2))
finish.set(); thread.join()
assert here and is_ours(batches[0])
""",
    )


def test_autograd_sees_draws(tmp_path):
    program = tmp_path / "draws.py"
    program.write_text("""
import torch
torch.manual_seed(0)
for draw in (lambda y: y.uniform_(), lambda y: y.normal_(generator=torch.Generator()),
             lambda y: y.bernoulli_(0.5), lambda y: y[1:].exponential_()):
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    draw(y)
    y.sum().backward()
    print(y.detach(), x.grad)
    try:
        draw(x)
    except RuntimeError as error:
        print(error)
    with torch.no_grad():
        draw(x)
    print(x)
p = torch.full((3,), 0.5, requires_grad=True)
for y in (torch.bernoulli(p), p.bernoulli(), torch.normal(p, 1.0), torch.poisson(p)):
    y.sum().backward()
    print(y.requires_grad, y.detach(), p.grad)
print(torch.multinomial(p, 2).requires_grad)
with torch.no_grad():
    print(torch.bernoulli(p).requires_grad)
""")
    assert output(program) == output(program, launched=False)


def test_generators_of_the_device_draw_there(tmp_path):
    check(
        tmp_path,
        """
def draws():
    g = torch.Generator("cuda").manual_seed(3)
    p = torch.full((4,), 0.5, device="cuda")
    in_place = [torch.empty(3, device="cuda").normal_(generator=g) for _ in range(2)]
    return *in_place, torch.bernoulli(p, generator=g), torch.multinomial(p, 2, generator=g)
first, second = draws(), draws()
assert all(map(torch.equal, first, second)) and all(map(is_ours, first))
assert not torch.equal(first[0], first[1])
""",
        "--from",
        "cuda,cpu",
    )


def test_streams_and_events_are_torchs(tmp_path):
    check(
        tmp_path,
        """
cuda = torch.cuda
stream, event = cuda.Stream(), cuda.Event()
assert isinstance(event, torch.Event) and isinstance(event, cuda.Event)
assert isinstance(stream.record_event(), cuda.Event)
stream.record_event(event); stream.wait_event(event); cuda.current_stream().wait_event(event)
assert event.query()
for s in (stream, cuda.current_stream(), cuda.Stream("cuda:0")):
    assert isinstance(s, cuda.Stream) and isinstance(s, torch.Stream)
assert not isinstance(3, cuda.Stream) and not isinstance(3, cuda.Event)
""",
    )


def test_models_that_are_read_whole(tmp_path):
    check(
        tmp_path,
        """
model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
def train():
    optimizer.zero_grad(); model(torch.ones(4, 8)).sum().backward(); optimizer.step()
train()
step = lambda: optimizer.state_dict()["state"][0]["step"]
assert not is_ours(step())
model, state = read_back(model), read_back(optimizer.state_dict())
assert all(map(is_ours, (*model.parameters(), *model.buffers())))
optimizer = torch.optim.Adam(model.parameters())
optimizer.load_state_dict(state); train()
assert not is_ours(step()) and step().item() == 2
assert is_ours(optimizer.state_dict()["state"][0]["exp_avg"])
optimizer = torch.optim.Adam(model.parameters(), capturable=True)
for group in state["param_groups"]:
    group["capturable"] = True
optimizer.load_state_dict(state)
assert is_ours(step())
""",
    )


def test_random_states_that_are_read(tmp_path):
    check(
        tmp_path,
        """
g = torch.Generator().manual_seed(5)
state = read_back(g.get_state())
expected = torch.rand(3, generator=g)
assert g.set_state(state) is g
assert torch.equal(torch.rand(3, generator=g), expected)
torch.set_rng_state(read_back(torch.get_rng_state()))
""",
    )


def test_loaders_give_packed_sequences(tmp_path):
    check(
        tmp_path,
        """
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence
data = [torch.ones(2, 1), torch.ones(3, 1)]
def collate(samples): return pack_sequence(samples, enforce_sorted=False), torch.ones(2)
for workers in (0, 1):
    loader = torch.utils.data.DataLoader(data, 2, collate_fn=collate, num_workers=workers)
    ((packed, labels),) = loader
    assert is_ours(packed.data) and is_ours(labels) and is_ours(packed.sorted_indices)
    assert not is_ours(packed.batch_sizes)
    padded, lengths = pad_packed_sequence(nn.RNN(1, 2)(packed)[0])
    assert is_ours(padded) and lengths.tolist() == [2, 3]
""",
    )


def test_memory_by_torchs_names(tmp_path):
    check(
        tmp_path,
        """
cuda, accelerator = torch.cuda, torch.accelerator
x = torch.ones(1000, device="cuda"); x.sum().item()
stats = cuda.memory_stats("cuda:0")
assert stats["allocated_bytes.all.current"] == cuda.memory_allocated(0) >= 4000
assert stats["reserved_bytes.all.peak"] == cuda.max_memory_reserved() == cuda.max_memory_cached()
nested = cuda.memory_stats_as_nested_dict()
assert nested["reserved_bytes"]["all"]["current"] == cuda.memory_reserved()
assert "reserved_bytes.current" not in stats and "Allocated" in cuda.memory_summary(None, True)
assert accelerator.max_memory_reserved("cuda:0") == cuda.max_memory_reserved()
assert accelerator.memory_allocated(torch.device("cuda")) == cuda.memory_allocated()
accelerator.synchronize("cuda"); accelerator.reset_peak_memory_stats()
""",
    )


def test_taking_over_twice(tmp_path):
    code = """
import os, torch
torch.lazuli.take_over("cpu")
said = os.environ["LAZULI_TAKE_OVER"], torch.zeros(1).device
torch.lazuli.take_over("cuda")
assert torch.cuda.is_available() and torch.cuda.memory_allocated() >= 0
is_available = torch.cuda.is_available
torch.lazuli.take_over("cuda")
assert torch.cuda.is_available is is_available
torch.lazuli.take_over()
x = torch.zeros(1).cuda() + 1
own = torch._C.TensorBase.device.__get__
assert own(torch.zeros(1)).type == "lazuli"
print(said, os.environ["LAZULI_TAKE_OVER"], x.device)
"""
    expected = "('cpu', device(type='cpu')) cuda,cpu cuda:0\n"
    assert output("-c", code, launched=False) == expected


def test_the_setting_for_mixed_operands_is_the_process_own(tmp_path):
    code = """
import os, torch
torch.lazuli.take_over()
x = torch.ones(2) + torch.from_numpy(__import__("numpy").ones(2, "float32"))
print(x.tolist(), torch.lazuli.config.move_host_operands, "LAZULI_MOVE_HOST_OPERANDS" in os.environ)
"""
    assert output("-c", code, launched=False) == "[2.0, 2.0] True False\n"
    used = code.replace("import os, torch", "import os, torch; torch.ones(1, device='lazuli')")
    assert output("-c", used, launched=False) == "[2.0, 2.0] True False\n"
    chosen = output(
        "-c",
        code.split("x =")[0] + "print(torch.lazuli.config.move_host_operands)",
        launched=False,
        LAZULI_MOVE_HOST_OPERANDS="0",
    )
    assert chosen == "False\n"


@pytest.mark.parametrize("first", ["", "torch.ones(1, device='lazuli')"], ids=["before", "after"])
def test_exchange_does_not_depend_on_when_the_device_is_first_used(first):
    code = f"""
import numpy, torch
{first}
torch.lazuli.take_over("cpu")
x = torch.zeros(2)
array = numpy.from_dlpack(x)
x.add_(1)
print(array, torch.from_dlpack(x).is_cpu, torch.Tensor.__dlpack__.__module__)
"""
    text = output("-c", code, launched=False)
    assert text == "[1. 1.] True torch._tensor\n"


def test_torchscript_compiles_what_is_replaced(tmp_path):
    program = tmp_path / "scripted.py"
    program.write_text("""
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
    def forward(self, x):
        some = torch.rand(3) + torch.bernoulli(x) + torch.fft.fftfreq(3) + torch.zeros_like(x)
        return self.layer(some + torch.tensor([1.0, 2.0, 3.0]))[:, torch.arange(3)]
torch.manual_seed(0)
net, x = torch.jit.script(Net()), torch.full((2, 3), 0.5)
net(x).sum().backward()
print(net(x), net.layer.weight.grad)
""")
    expected = output(program, launched=False)
    assert numbers(output("--random", "eager", program)) == pytest.approx(numbers(expected))


def test_functions_of_autograd_that_use_numpy(tmp_path):
    program = tmp_path / "functions.py"
    program.write_text("""
import numpy as np, torch
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, power, w):
        ctx.save_for_backward(x, w)
        x, w = x.detach().numpy(), w.detach().numpy()
        return torch.from_numpy(x ** power * w), torch.as_tensor(x.sum())
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, grad_of_sum):
        x, w = (t.detach().numpy() for t in ctx.saved_tensors)
        g = grad.numpy() * 3 * x ** 2 * w + grad_of_sum.numpy()
        return torch.from_numpy(g), None, torch.from_numpy(grad.numpy() * x ** 3)
class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x
    @staticmethod
    def backward(ctx, grad):
        return grad
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad
torch.manual_seed(0)
x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
cubes, total = Cube.apply(x * 1.0, 3, w)
loss = torch.dot(cubes, torch.arange(3.0)) + total
Same.apply(loss * 2).backward()
print(loss, x.grad, w.grad)
(first,) = torch.autograd.grad(Square.apply(x).sum(), x, create_graph=True)
print(torch.autograd.grad(first.pow(2).sum(), x))
with torch.no_grad():
    print(Cube.apply(x, 3, w)[0])
host = torch.from_numpy(np.ones(3, np.float32)).requires_grad_()
Square.apply(host).sum().backward()
print(host.grad)
""")
    expected = output(program, launched=False)
    assert output("--random", "eager", program) == expected


def test_functions_of_autograd_of_torchs_own(tmp_path):
    program = tmp_path / "checkpoint.py"
    program.write_text("""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
for reentrant in (True, False):
    x = torch.randn(6, 4, requires_grad=True)
    checkpoint(net, x, use_reentrant=reentrant).sum().backward()
    print(x.grad, net[0].weight.grad)
""")
    assert output(program) == output(program, launched=False)


def test_parameters_without_a_shape(tmp_path):
    program = tmp_path / "lazy_modules.py"
    program.write_text("""
import torch
from torch import nn
for move in (lambda m: m.double(), lambda m: m.to("cpu").double(), lambda m: m.to(torch.float64),
             lambda m: m.cpu().half().double()):
    torch.manual_seed(0)
    net = move(nn.Sequential(nn.LazyConv1d(3, 2), nn.ReLU(), nn.LazyLinear(2)))
    print(net(torch.ones(2, 3, 5, dtype=torch.float64)), net[0].weight.dtype)
""")
    assert output(program) == output(program, launched=False)


def test_distributions_draw_as_eager_does(tmp_path):
    program = tmp_path / "distributions.py"
    program.write_text("""
import torch
from torch import distributions as d
one, some = torch.ones(3), torch.tensor([0.5, 2.0, 3.0])
for make in (lambda: d.Uniform(-one, one), lambda: d.Gumbel(one, some), lambda: d.Gamma(some, one),
             lambda: d.Beta(some, one), lambda: d.Dirichlet(some), lambda: d.StudentT(some),
             lambda: d.Binomial(5, one / 2), lambda: d.Poisson(some), lambda: d.Laplace(one, some),
             lambda: d.RelaxedOneHotCategorical(one, logits=some), lambda: d.VonMises(one, some),
             lambda: d.MultivariateNormal(one, torch.eye(3)), lambda: d.Normal(one, some)):
    torch.manual_seed(0)
    print(make().sample((2,)), make().sample(), torch.rand(2))
print(torch.svd_lowrank(torch.arange(12.0).view(3, 4) ** 2, q=2)[1], torch.rand(1))
rate = some.clone().requires_grad_()
d.Gamma(rate, one).rsample().sum().backward()
print(rate.grad)
""")
    assert output(program) == output(program, launched=False)


def test_the_default_type_is_set_back(tmp_path):
    program = tmp_path / "default_types.py"
    program.write_text("""
import torch
for kind in (torch.cuda.FloatTensor, torch.FloatTensor, "torch.cuda.DoubleTensor",
             torch.DoubleTensor, torch.cuda.FloatTensor, "torch.FloatTensor"):
    torch.set_default_tensor_type(kind)
    x = torch.ones(2)
    print(x.device, torch.get_default_device(), x.dtype)
""")
    said = output("--from", "cuda", program).splitlines()
    assert said == [
        "cuda:0 cuda:0 torch.float32",
        "cpu cpu torch.float32",
        "cuda:0 cuda:0 torch.float64",
        "cpu cpu torch.float64",
        "cuda:0 cuda:0 torch.float32",
        "cpu cpu torch.float32",
    ]


def test_profiling_cuda_without_a_gpu(tmp_path):
    program = tmp_path / "profiled.py"
    program.write_text("""
import torch
from torch.profiler import ProfilerActivity, profile, record_function
x = torch.ones(3, device="cuda")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as p:
    with record_function("mine"):
        print((x * 2).sum().item())
print("mine" in p.key_averages().table(sort_by="cuda_time_total", row_limit=50))
with torch.autograd.profiler.profile(use_device="cuda") as p:
    (x * 2).sum().item()
print(len(p.key_averages()) > 0)
""")
    done = run("--from", "cuda", program)
    assert done.stdout == "6.0\nTrue\nTrue\n"
    assert "Failed to record" not in done.stderr
