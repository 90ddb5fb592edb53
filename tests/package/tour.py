"""A tour of what a user does with the device. It prints a line for each stop.

The first stop that goes wrong ends it with an error.

python tests/package/tour.py      with nothing but torch and the plugin installed
"""

import copy
import io
import os
import threading

import torch
from torch import nn
from torch.nn import functional

DEVICE = "lazuli"


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)


def train(device: str, steps: int = 8, autocast: bool = False) -> tuple[list[float], nn.Module]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(4 * 16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 10),
    )  # fmt: skip
    x, y = torch.randn(64, 1, 8, 8), torch.arange(64) % 10
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model


def training():
    expected, on_cpu = train("cpu")
    losses, model = train(DEVICE)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=1e-3, atol=1e-4)
    assert losses[-1] < losses[0]
    return copy.deepcopy(model), on_cpu


def mixed_precision():
    losses, _ = train(DEVICE, autocast=True)
    assert losses[-1] < losses[0]


def new_shapes():
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    on_device = copy.deepcopy(layer).to(DEVICE)
    for length in range(3, 40, 4):
        x = torch.randn(2, length, 16)
        close(on_device(x.to(DEVICE)), layer(x))


def saving():
    model = nn.Linear(3, 2).to(DEVICE)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    assert all(t.is_cpu for t in torch.load(file, map_location="cpu").values())
    file.seek(0)
    for name, t in torch.load(file, map_location=DEVICE).items():
        assert t.device.type == DEVICE
        close(t, model.state_dict()[name].cpu())


def random_numbers():
    g = torch.Generator(DEVICE).manual_seed(4)
    first = torch.randn(5, device=DEVICE, generator=g)
    again = torch.randn(5, device=DEVICE, generator=g.manual_seed(4))
    assert first.tolist() == again.tolist()


def indexing_and_views():
    def work(device):
        x = torch.arange(24.0, device=device).reshape(2, 3, 4)
        x[:, 1] += 10
        x[x > 20] = -1
        return torch.cat([x.transpose(0, 2).reshape(-1), x.sum(0).sort().values.flatten()])

    close(work(DEVICE), work("cpu"))


def linear_algebra():
    a = torch.randn(4, 4) + 4 * torch.eye(4)
    close(
        torch.linalg.solve(a.to(DEVICE), torch.ones(4, device=DEVICE)),
        torch.linalg.solve(a, torch.ones(4)),
    )


def functional_transforms():
    f = torch.func.vmap(torch.func.grad(lambda x: (x.sin() * x).sum()))
    x = torch.randn(3, 4)
    close(f(x.to(DEVICE)), f(x))


def errors():
    try:
        torch.ones(2, device=DEVICE) @ torch.ones(3, device=DEVICE)
    except RuntimeError:
        return
    raise AssertionError("operands that do not fit must be an error")


def loader():
    batches = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=4, num_workers=1)
    assert sum(b.to(DEVICE).sum().item() for b in batches) == 28


def threads():
    results = []
    work = [
        threading.Thread(
            target=lambda i=i: results.append(torch.full((9,), i, device=DEVICE).sum().item())
        )
        for i in range(4)
    ]
    for t in work:
        t.start()
    for t in work:
        t.join()
    assert sorted(results) == [0, 9, 18, 27]


def fork():
    child = os.fork()
    if child == 0:
        os._exit(int(torch.ones(5, device=DEVICE).sum().item()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


def inspection():
    x = torch.randn(4, device=DEVICE)
    y = (x * 2).relu()
    assert "relu" in torch.lazuli.dump()
    y.sum().item()
    assert torch.lazuli.metrics()["ops_recorded"] > 0
    assert "trace" in str(torch.lazuli.explain())


STOPS = [
    training, mixed_precision, new_shapes, saving, random_numbers, indexing_and_views,
    linear_algebra, functional_transforms, errors, loader, threads, fork, inspection,
]  # fmt: skip


def main() -> None:
    if os.environ.get("LAZULI_TOUR") == "fork first":
        fork()
    for stop in STOPS:
        stop()
        print(f"ok {stop.__name__}", flush=True)


if __name__ == "__main__":
    main()
