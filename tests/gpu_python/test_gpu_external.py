"""Torch's own CUDA kernels between ours, on the same memory and in order."""

import math

import pytest
import torch

F = torch.nn.functional


def in_place(x):
    y = x * 2
    y.cumsum_(0)
    return y + 1


def positive_definite(x):
    return x @ x.mT + 40 * torch.eye(x.shape[0], device=x.device)


def put(x):
    rows = torch.arange(20, device=x.device) % 7
    return (x + 1).index_put((rows,), x[:20] * 2, accumulate=True).tanh()


def biased_attention(x, shape):
    """The bias depends on x too, as relative positions do on their table."""
    q, bias = x.view(1, 4, 8, -1), x.flatten()[: math.prod(shape)].view(shape) * 2
    k = q[:, :, : shape[-1]]
    return F.scaled_dot_product_attention(q * 2, k, k + 1, attn_mask=bias).exp()


MIXES = {
    "cdist": lambda x: torch.cdist((x * 2).sin(), x + 1).relu().sum(1),
    "sort": lambda x: (x * 2).sort(dim=1)[0][:, :3] - 1,
    "topk": lambda x: (x + 1).topk(5, dim=1)[0].exp(),
    "cumsum": lambda x: (x * 0.1).cumsum(1).tanh() + x.cumprod(0),
    "cholesky": lambda x: torch.linalg.cholesky(positive_definite(x)).sum(0) * 2,
    "solve": lambda x: torch.linalg.solve(positive_definite(x), x + 1) * 3,
    "fft": lambda x: torch.fft.rfft(x + 1).abs().log1p(),
    "nonzero": lambda x: (x * 2)[x > 0.5].sum() + 1,
    "mask of rows": lambda x: (x * 2)[x[:, 0] > 0].exp(),
    "mask of pixels": lambda x: x.view(4, 8, 64).transpose(1, 2)[x.view(4, 8, 64)[:, 0] > 0] * 2,
    "masked_select": lambda x: (x + 1).masked_select(x[:1] > 0).exp(),
    "nonzero indices": lambda x: (x > 1).nonzero() * 2,
    "unique": lambda x: (x * 3).round().unique() + 1,
    "convolution": lambda x: F.conv2d((x + 1)[None, None], x[None, None, :3, :3], padding=1).relu(),
    "convolution of channels last": lambda x: F.conv2d(
        x.reshape(1, 2, 16, -1).to(memory_format=torch.channels_last) * 2,
        x[:4, :18].reshape(4, 2, 3, 3),
    ).sigmoid(),
    "attention": lambda x: F.scaled_dot_product_attention(
        x.view(1, 4, 8, -1) * 2, x.view(1, 4, 8, -1), x.view(1, 4, 8, -1) + 1
    ).exp(),
    "attention with a bias": lambda x: biased_attention(x, (1, 4, 8, 8)),
    "attention with a bias of odd rows": lambda x: biased_attention(x, (1, 4, 8, 7)),
    "attention with a bias for all heads": lambda x: biased_attention(x, (1, 1, 8, 7)),
    "pooling": lambda x: F.max_pool2d(x[None, None] * 2, 3).exp(),
    "interpolate": lambda x: F.interpolate(x[None, None] * 2, scale_factor=1.7, mode="bicubic"),
    "grid_sample": lambda x: F.grid_sample(
        x[None, None], x[:16].reshape(1, -1, 4, 2).tanh(), align_corners=False
    ),
    "index_put": put,
    "repeats": lambda x: (x * 2).repeat_interleave(
        torch.arange(32, device=x.device) % 3, 0, output_size=31
    ),
    "in place": in_place,
    "median": lambda x: (x + 1).median(1)[0] * 2,
    "searchsorted": lambda x: torch.searchsorted(x[0].sort()[0] + 1, x[1]) * 2,
    "multi-head": lambda x: F.multi_head_attention_forward(
        *[x[:, None, :32] * 2] * 3,
        32,
        4,
        x.repeat(3, 1)[:96, :32],
        None,
        None,
        None,
        False,
        0.0,
        x[:32, :32],
        None,
    )[0],
    "lstm": lambda x: torch.lstm(
        x[None, :, :32] * 2,
        (x.new_zeros(1, 32, 16), x.new_zeros(1, 32, 16)),
        [x.repeat(2, 1)[:64, :32].contiguous(), x.repeat(2, 1)[:64, :16].contiguous()],
        False,
        1,
        0.0,
        True,
        False,
        False,
    )[0],
}
NOT_DIFFERENTIABLE = {"nonzero indices", "unique", "searchsorted"}


def numbers():
    torch.manual_seed(0)
    return torch.randn(32, 64)


@pytest.mark.parametrize("name", MIXES)
def test_values(name):
    x = numbers()
    expected = MIXES[name](x.cuda()).cpu()
    for _ in range(3):  # rehearsed, recorded, known
        actual = MIXES[name](x.to("lazuli"))
        torch.testing.assert_close(actual.cpu(), expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", [n for n in MIXES if n not in NOT_DIFFERENTIABLE])
def test_gradients(name):
    gradients = []
    for device in ("cuda", "lazuli"):
        x = numbers().to(device).requires_grad_()
        y = MIXES[name](x)
        y.mul(torch.linspace(0, 1, y.numel()).to(device).view(y.shape)).sum().backward()
        gradients.append(x.grad.cpu())
    expected, actual = gradients
    scale = expected.abs().max().item()
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4 * scale + 1e-6)


def test_random_sequences():
    """Long chains of native and external ops, chosen at random."""
    steps = [
        lambda x: x * 1.5 - 0.25,
        lambda x: x.tanh(),
        lambda x: x.sort(dim=1)[0],
        lambda x: x.cumsum(0) * 0.1,
        lambda x: x.softmax(1) + x,
        lambda x: torch.cdist(x, x)[:, :32].repeat(1, 2) * 0.1,
        lambda x: x.roll(3, 1).flip(0),
        lambda x: F.layer_norm(x, (64,)),
        lambda x: x.renorm(2, 0, 1.0),
        lambda x: x.clone().index_fill_(1, torch.tensor([1, 5], device=x.device), 0.5),
    ]
    for seed in range(10):
        torch.manual_seed(seed)
        chosen = torch.randint(len(steps), (12,)).tolist()
        results = []
        for device in ("cuda", "lazuli"):
            x = numbers().to(device)
            for step in chosen:
                x = steps[step](x)
            results.append(x.cpu())
        expected, actual = results
        # A sort or a distance may turn rounding into more.
        torch.testing.assert_close(
            actual, expected, rtol=2e-3, atol=2e-3, msg=lambda t, s=seed: f"seed {s}: {t}"
        )


def test_tensors_of_both_devices_live_together():
    x = numbers()
    ours, theirs = x.to("lazuli"), x.cuda()
    for _ in range(5):
        theirs = (ours * 2).to("cuda") + theirs  # eager work on what a trace gives
        ours = (theirs.to("lazuli") - 1).tanh()  # and back
    want = other = x
    for _ in range(5):
        other = want * 2 + other
        want = (other - 1).tanh()
    torch.testing.assert_close(ours.cpu(), want, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(theirs.cpu(), other, rtol=1e-5, atol=1e-5)
