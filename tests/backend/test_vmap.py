"""torch.func.vmap."""

import pytest
import torch
from differential import assert_same, normal

FUNCTIONS = {
    "elementwise": lambda x, y: x.sin() * y + 1,
    "matmul": lambda x, y: x @ y.t(),
    "softmax": lambda x, y: (x * y).softmax(-1),
    "layer_norm": lambda x, y: torch.nn.functional.layer_norm(x + y, (4,)),
    "views": lambda x, y: x.t()[1:].reshape(-1) + y[0, 0],
    "reduction": lambda x, y: x.sum(0) + y.mean(),
    "where": lambda x, y: torch.where(x > y, x, y),
    "cat": lambda x, y: torch.cat([x, y], 1),
    "in place": lambda x, y: x.clone().add_(y).mul_(2),
    "index": lambda x, y: x[torch.tensor([0, 2], device=x.device)],
    "norm": lambda x, y: (x - y).norm(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dims", [(0, 0), (1, 0), (0, None), (2, 1)])
def test_over(name, dims):
    def compute(device):
        shapes = [[3, 4], [3, 4]]
        for shape, dim in zip(shapes, dims, strict=True):
            if dim is not None:
                shape.insert(dim, 5)
        x, y = (normal(*shape, device=device) for shape in shapes)
        return torch.func.vmap(FUNCTIONS[name], dims)(x, y)

    assert_same(compute, ignore=("stride",))


def test_gradients_of_each_sample():
    def compute(device):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))
        net.to(device)
        parameters = {name: p.detach() for name, p in net.named_parameters()}

        def loss(parameters, x, y):
            out = torch.func.functional_call(net, parameters, (x[None],))
            return torch.nn.functional.cross_entropy(out, y[None])

        x = normal(6, 3, device=device)
        y = torch.tensor([0, 1, 0, 1, 1, 0]).to(device)
        return torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(parameters, x, y)

    assert_same(compute, ignore=("stride",), rtol=1e-4, atol=1e-5)


def test_an_ensemble():
    def compute(device):
        torch.manual_seed(0)
        nets = [torch.nn.Linear(3, 2).to(device) for _ in range(4)]
        parameters, buffers = torch.func.stack_module_state(nets)
        x = normal(5, 3, device=device)
        call = lambda p, b, x: torch.func.functional_call(nets[0], (p, b), (x,))  # noqa: E731
        return torch.func.vmap(call, (0, 0, None))(parameters, buffers, x)

    assert_same(compute, ignore=("stride",), rtol=1e-5, atol=1e-5)


def test_randomness():
    def draw(randomness):
        x = torch.zeros(4, 100, device="lazuli")
        return torch.func.vmap(
            lambda x: x + torch.rand(100, device="lazuli"), randomness=randomness
        )(x).cpu()

    same, different = draw("same"), draw("different")
    assert torch.equal(same[0], same[1])
    assert not torch.equal(different[0], different[1])
    with pytest.raises(RuntimeError, match="randomness"):
        draw("error")
