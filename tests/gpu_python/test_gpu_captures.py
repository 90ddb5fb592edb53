"""Runs that are launched as CUDA graphs: the results of launching one by one, bit for bit."""

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def own_settings():
    """Whatever traces there were before, new ones are planned whole: parts are not captured."""
    with torch.lazuli.config.patch(cuda_graphs="always", tiers="plans"):
        yield


def launched():
    torch.lazuli.synchronize()
    return torch.lazuli.metrics()["captured_runs_launched"]


def as_one_by_one(program, times=1):
    """What `program()` gives captured; it must be what it gives with each launch made by itself."""
    program()  # calls that are new run by themselves, and leave less to fuse
    torch.lazuli.reset_metrics()
    got = program()
    refusals = [e for e in torch.lazuli.explain() if e.kind == "not captured"]
    assert launched() >= times, f"captured {torch.lazuli.metrics()['runs_captured']}; {refusals}"
    with torch.lazuli.config.patch(cuda_graphs="0"):
        want = program()
    torch.testing.assert_close(got, want, rtol=0, atol=0)
    return got


def encoder(dropout=0.1):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=dropout, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to("lazuli")


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("reads", [False, True])
def test_training(dropout, reads):
    def train():
        model = encoder(dropout)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        torch.manual_seed(1)
        losses = []
        for _ in range(60):  # runs ahead of their reads find other memory, for a while
            loss = model(torch.randn(3, 8, 32).to("lazuli")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item() if reads else loss.detach())
        weights = [p.detach().cpu() for p in model.parameters()]
        return torch.tensor([float(loss) for loss in losses]), weights

    as_one_by_one(train)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("reads", [False, True])
def test_inference(keep, reads):
    @torch.no_grad()
    def infer():
        model = encoder().eval()
        torch.manual_seed(2)
        results, last = [], None
        for _ in range(80):
            last = model(torch.randn(3, 8, 32).to("lazuli"))
            if keep:
                results.append(last)
            if reads:
                last.sum().item()
        return [r.cpu() for r in results] if keep else last.cpu()

    # What nobody keeps or reads is not computed at all.
    as_one_by_one(infer, times=keep or reads)


def test_convolutions_with_settings_that_change():
    def train():
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten()
        )
        model = model.to("lazuli")
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
        torch.manual_seed(1)
        losses = []
        for i in range(24):
            with torch.backends.cudnn.flags(
                enabled=True, benchmark=False, deterministic=True, allow_tf32=i < 12
            ):
                loss = model(torch.randn(4, 3, 12, 12).to("lazuli")).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return torch.tensor(losses)

    as_one_by_one(train)


def test_a_call_that_cannot_be_captured_runs_between():
    def step(x, w):
        for _ in range(6):
            x = torch.tanh(x @ w)
        x = torch.linalg.inv(x @ x.mT + torch.eye(16, device="lazuli"))
        for _ in range(6):
            x = torch.tanh(x @ w)
        return x.sum()

    def run():
        torch.manual_seed(0)
        w = torch.randn(16, 16).to("lazuli")
        return torch.tensor([step(torch.randn(16, 16).to("lazuli"), w).item() for _ in range(16)])

    as_one_by_one(run, times=0)


def test_memory_that_is_given_back_is_not_used_again():
    def run():
        model = encoder().eval()
        torch.manual_seed(0)
        results = []
        with torch.no_grad():
            for i in range(24):
                results.append(model(torch.randn(3, 8, 32).to("lazuli")).sum().item())
                if i == 12:
                    torch.lazuli.empty_cache()
                    filled = torch.full((1 << 22,), 7.0, device="lazuli")
                if i >= 12:
                    assert filled.min().item() == filled.max().item() == 7.0
        return torch.tensor(results)

    as_one_by_one(run)


def test_what_is_said_of_a_plan_that_is_not_captured():
    torch.lazuli.explain()
    w = torch.randn(2048, 2048).to("lazuli")
    kept = []
    for _ in range(40):
        x = torch.randn(2048, 2048).to("lazuli")
        for _ in range(6):
            x = torch.tanh(x @ w)
        kept.append(x @ w)
        kept[-1][0, 0].item()
    assert any("not captured" in str(e) for e in torch.lazuli.explain())


@torch.no_grad()
def test_a_call_of_a_compiled_model_runs_while_the_next_is_recorded():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval()
    inputs = [torch.randn(3, 8, 32) for _ in range(12)]
    want = [model(x) for x in inputs]
    run = torch.compile(model.to("lazuli"), backend="lazuli")
    run(inputs[0].to("lazuli"))
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    kept = [run(x.to("lazuli")) for x in inputs]
    assert torch.lazuli.metrics()["syncs"]["end of a known trace"] == len(inputs)
    for got, expected in zip(kept, want, strict=True):
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-4)
    assert torch.lazuli.metrics()["traces_compiled"] <= 1
