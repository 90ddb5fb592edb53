"""A second backward through a graph that the first let go: an error where eager kept tensors."""

import pytest
import torch
import torch.nn.functional as F
from differential import without_device

OPERATORS = {
    "add": lambda x: x + x,
    "add a number": lambda x: x + 2,
    "sub": lambda x: 2 - x,
    "mul by a number": lambda x: x * 2,
    "div by a number": lambda x: x / 2,
    "div": lambda x: x / x.detach(),
    "of a number": lambda x: 2 / x,
    "neg": lambda x: -x,
    "abs": abs,
    "exp": torch.exp,
    "pow 0": lambda x: x**0,
    "pow 1": lambda x: x**1,
    "pow 2": lambda x: x**2,
    "where": lambda x: torch.where(x > 0, x, 1.0),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "to": lambda x: x.to(torch.float64),
    "clone": torch.clone,
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "addmm of a bias": lambda x: torch.addmm(x, x.detach(), x.detach()),
    "addmm": lambda x: torch.addmm(x.detach(), x, x.detach()),
    "linear": lambda x: F.linear(x, x.detach()),
    "matmul": lambda x: x @ x,
    "sum": torch.sum,
    "sum of rows": lambda x: x.sum(0),
    "mean": torch.mean,
    "mean of rows": lambda x: x.mean(1),
    "cumsum": lambda x: x.cumsum(0),
    "amax": lambda x: x.amax(0),
    "softmax": lambda x: x.softmax(0),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "avg_pool2d": lambda x: F.avg_pool2d(x[None], 2),
    "max_pool2d": lambda x: F.max_pool2d(x[None], 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x[None], 2),
    "conv2d": lambda x: F.conv2d(x[None], torch.ones(1, 1, 2, 2, device=x.device)),
    "mse_loss": lambda x: F.mse_loss(x, x.detach()),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x.detach() + 1),
    "dropout of nothing": lambda x: F.dropout(x, 0.0),
    "cat": lambda x: torch.cat([x, x]),
    "stack": lambda x: torch.stack([x, x]),
    "index_select": lambda x: x.index_select(0, torch.tensor([1], device=x.device)),
    "gather": lambda x: x.gather(0, torch.zeros(1, 4, dtype=torch.int64, device=x.device)),
    "view": lambda x: x.view(2, 8),
    "transpose": lambda x: x.mT,
    "slice": lambda x: x[1:],
    "expand": lambda x: x[0].expand(3, 4),
    "flip": lambda x: x.flip(0),
    "tanh of a view": lambda x: x[1:].tanh(),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("length", [1, 3])
def test_backward_twice(device, name, length):
    def second(device):
        """Its error; empty: none."""
        x = (torch.arange(16.0) + 1).reshape(4, 4).to(device).requires_grad_()
        y = OPERATORS[name](x)
        for _ in range(length - 1):  # a step that is not the only one
            y = y + 0
        y.backward(torch.ones_like(y))
        try:
            y.backward(torch.ones_like(y))
        except RuntimeError as error:
            return without_device(error)
        return ""

    assert second(device) == second("cpu")
