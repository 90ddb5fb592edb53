"""Programs that compute: clusters, filters, equations, processes."""

import math
from collections.abc import Iterator

import torch
from torch import nn

from benchmarks.programs.program import STEPS, Loss


def kmeans(device: str) -> Iterator[Loss]:
    """Lloyd's algorithm, from several beginnings."""
    x = (torch.randn(2000, 8) + 4 * torch.randint(2, (2000, 8))).to(device)
    for step in range(STEPS):
        if step % 15 == 0:
            centers = x[torch.randperm(len(x))[:12].to(device)]
        distances = torch.cdist(x, centers)
        nearest = distances.argmin(1)
        sums = torch.zeros_like(centers).index_add_(0, nearest, x)
        counts = torch.bincount(nearest, minlength=len(centers)).clamp(min=1)
        centers = sums / counts.unsqueeze(1)
        yield distances.gather(1, nearest.unsqueeze(1)).mean().item()


def kalman(device: str) -> Iterator[Loss]:
    """A filter that follows a point in the plane: many operations on tiny matrices."""
    dt = 0.1
    motion = torch.eye(4)
    motion[0, 2] = motion[1, 3] = dt
    motion, seen = motion.to(device), torch.eye(2, 4).to(device)
    noise, error = 0.01 * torch.eye(4).to(device), 0.5 * torch.eye(2).to(device)
    state, spread = torch.zeros(4, 1, device=device), torch.eye(4, device=device)
    one = torch.eye(4, device=device)
    for step in range(STEPS):
        place = torch.tensor([[math.cos(step * dt)], [math.sin(step * dt)]])
        measured = (place + 0.5 * torch.randn(2, 1)).to(device)
        state = motion @ state
        spread = motion @ spread @ motion.T + noise
        surprise = measured - seen @ state
        gain = spread @ seen.T @ torch.linalg.inv(seen @ spread @ seen.T + error)
        state = state + gain @ surprise
        spread = (one - gain @ seen) @ spread
        yield surprise.norm().item()


def lbfgs(device: str) -> Iterator[Loss]:
    """A logistic regression by L-BFGS with a line search."""
    x = torch.randn(500, 20)
    y = (x @ torch.randn(20) + torch.randn(500) > 0).float().to(device)
    x = x.to(device)
    weights = torch.zeros(20, device=device, requires_grad=True)
    bias = torch.zeros((), device=device, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weights, bias], max_iter=8, line_search_fn="strong_wolfe", tolerance_change=1e-12
    )

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(x @ weights + bias, y)
        loss = loss + 1e-2 * weights.square().sum()
        loss.backward()
        return loss

    for step in range(STEPS // 5):
        with torch.no_grad():
            if step % 5 == 0:
                weights.copy_(0.1 * torch.randn(20))
        yield optimizer.step(closure).item()


def pinn(device: str) -> Iterator[Loss]:
    """A network that solves a differential equation, with second derivatives in its loss."""
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
    model.append(nn.Linear(32, 1))
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    ends = torch.tensor([[0.0], [math.pi]], device=device)
    for _ in range(STEPS):
        x = (math.pi * torch.rand(128, 1)).to(device).requires_grad_()
        u = model(x)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (curve,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
        loss = (curve + x.sin()).square().mean() + model(ends).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def gaussian_process(device: str) -> Iterator[Loss]:
    """The parameters of a kernel by their likelihood, through a Cholesky factor."""
    x = torch.linspace(0, 1, 60)
    y = ((12 * x).sin() + 0.1 * torch.randn(60)).to(device)
    x = x.to(device)
    logs = torch.zeros(3, device=device, requires_grad=True)
    optimizer = torch.optim.Adam([logs], 0.05)
    squares = (x.unsqueeze(0) - x.unsqueeze(1)).square()
    for _ in range(STEPS):
        size, length, noise = logs.exp()
        kernel = size * (-0.5 * squares / (0.1 * length) ** 2).exp()
        kernel = kernel + (0.1 * noise + 1e-4) * torch.eye(60, device=device)
        factor = torch.linalg.cholesky(kernel)
        solved = torch.cholesky_solve(y.unsqueeze(1), factor).squeeze(1)
        loss = 0.5 * y @ solved + factor.diagonal().log().sum() + 30 * math.log(2 * math.pi)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


PROGRAMS = {
    "kmeans": kmeans,
    "kalman": kalman,
    "lbfgs": lbfgs,
    "pinn": pinn,
    "gaussian-process": gaussian_process,
}
