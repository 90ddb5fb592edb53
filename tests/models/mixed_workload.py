"""A mixed workload, whose memory after many iterations is that after the first hundred.

Recording, views, in-place writes, backward, an optimizer, external calls, random numbers, errors
that are raised, data-dependent shapes, and in each iteration sizes and an order of operators that
were not there before. As a command, with the number of iterations, it reads the memory after every
hundredth.

What is kept for reuse is bounded, and the bounds are set so low that a hundred iterations reach
them: what still grows is a leak.
"""

import argparse
import gc
import json
import os
import sys

os.environ.setdefault("LAZULI_MAX_TRACES", "64")
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")  # ours and torch's

import psutil
import torch
from torch import nn

ORDERED = (torch.sin, torch.tanh, torch.sigmoid, torch.exp, torch.abs, torch.neg, torch.relu)
ORDERED += (torch.square, torch.cos, torch.atan)
MOST = 12 << 20  # bytes of growth that are the allocator's


class Workload:
    def __init__(self, device: str = "lazuli"):
        self.device = device
        self.model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4))
        self.model.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.running = torch.zeros(4, device=device)
        self.parts = (self.train, self.views, self.external, self.errors, self.sizes)
        self.parts += (self.structures, self.hooks)

    def iterate(self, n: int) -> None:
        for part in self.parts:
            part(n)

    def train(self, n: int) -> None:
        x = torch.randn(8, 16).to(self.device)
        loss = nn.functional.cross_entropy(self.model(x), torch.randint(4, (8,)).to(self.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if n % 10 == 0:
            loss.item()

    def views(self, n: int) -> None:
        x = torch.rand(6, 4, device=self.device)
        x[1:3].mul_(2)
        x.t()[0, ::2] = n
        x.unsqueeze(0).transpose(1, 2).reshape(-1)[3].add_(1)
        self.running.lerp_(x.sum(0), 0.1)

    def external(self, n: int) -> None:
        x = torch.randn(5, 3).to(self.device)
        torch.cdist(x, x + 1).sum().item()
        x[x > 0].numel()
        torch.linalg.qr(x)

    def errors(self, n: int) -> None:
        x = torch.randn(3).to(self.device)
        for bad in (
            lambda: x @ torch.ones(2, 2, device=self.device),
            lambda: x[torch.tensor([7], device=self.device)].cpu(),
            lambda: torch.linalg.inv(torch.zeros(2, 2, device=self.device)),
            lambda: torch.ones(2, device=self.device).sum().backward(),
        ):
            try:
                bad()
            except (RuntimeError, IndexError):
                continue
            raise AssertionError("no error")

    def sizes(self, n: int) -> None:
        """Sizes that no iteration before had."""
        x = torch.randn(n + 2, 3).to(self.device).requires_grad_()
        torch.cdist(x, x[:1]).mul(2).softmax(0).sum().backward()
        x.grad.sum().item()

    def structures(self, n: int) -> None:
        """Operators in an order that no iteration before had, so that a kernel is new."""
        x = torch.ones(4, device=self.device)
        for digit in f"{n:06d}":
            x = ORDERED[int(digit)](x)
        x.sum().item()

    def hooks(self, n: int) -> None:
        x = torch.randn(4).to(self.device).requires_grad_()
        y = x.sin()
        y.register_hook(lambda g: g * 2)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        g.square().sum().backward()


def reading(iteration: int) -> dict:
    torch.lazuli.synchronize()
    gc.collect()
    found = {"iteration": iteration, "resident": psutil.Process().memory_info().rss}
    return {**found, "live": torch.lazuli.metrics()["bytes_live"]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/leaks", description=__doc__)
    parser.add_argument("iterations", type=int, nargs="?", default=10_000)
    parser.add_argument("--keep", type=int, default=0, help="bytes to leak in each, as a check")
    options = parser.parse_args()
    workload, kept, readings = Workload(), [], []
    for n in range(options.iterations):
        workload.iterate(n)
        kept.append(bytearray(options.keep))
        if n % 100 == 99:
            readings.append(reading(n + 1))
            print(json.dumps(readings[-1]), flush=True)
    grown = {key: readings[-1][key] - readings[0][key] for key in ("resident", "live")}
    if grown["resident"] <= MOST and grown["live"] <= 1 << 16:
        return 0
    print(f"memory grew by {grown['resident']} bytes, values that live by {grown['live']}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
