"""Version counters: a saved tensor that was written to since is found out in backward."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal


def test_writing_to_a_saved_result():
    def differentiate(device):
        x = normal(5, device=device, grad=True)
        y = x.sin()
        z = y * y
        y.add_(1.0)
        z.sum().backward()

    message = assert_same_error(differentiate, RuntimeError)
    assert "modified by an inplace operation" in message


def test_writing_to_a_view_of_a_saved_operand():
    def differentiate(device):
        w = normal(5, 5, device=device)
        x = normal(5, device=device, grad=True)
        y = w @ x
        w[0].zero_()
        y.sum().backward()

    assert_same_error(differentiate, RuntimeError)


def test_writing_to_what_was_not_saved():
    def differentiate(device):
        x = normal(5, device=device, grad=True)
        y = x + 1
        z = y * 2
        y.add_(1.0)
        z.sum().backward()
        return x.grad

    assert_same(differentiate)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x[1:].zero_(),
        lambda x: x.view(-1).copy_(torch.ones(6, device=x.device)),
        lambda x: torch.exp(x.clone(), out=x),
        lambda x: x.data.add_(1),
        lambda x: x.detach().add_(1),
        lambda x: x.sort(0),
        lambda x: x.normal_(),
        lambda x: x.index_fill_(0, torch.tensor([0], device=x.device), 1.0),
    ],
)
def test_versions_count_alike(write):
    def count(device):
        x = normal(2, 3, device=device)
        v = x[0]
        before = x._version
        write(x)
        return x._version - before, v._version - before

    assert_same(count)


def test_under_no_grad_too():
    def differentiate(device):
        x = normal(5, device=device, grad=True)
        w = normal(5, device=device)
        y = x * w
        with torch.no_grad():
            w.mul_(2)
        y.sum().backward()

    assert_same_error(differentiate, RuntimeError)


def test_inference_tensors_cannot_be_saved():
    def differentiate(device):
        with torch.inference_mode():
            w = normal(5, device=device)
        x = normal(5, device=device, grad=True)
        (x * w).sum().backward()

    assert_same_error(differentiate, RuntimeError)


def test_inference_mode_gives_numbers():
    def compute(device):
        with torch.inference_mode():
            x = normal(5, device=device)
            y = x[1:].sin().add_(1)
        return y.is_inference(), y.clone()

    assert_same(compute)


def test_new_tensors_begin_anew():
    """Also where they take over the counters of tensors that died."""

    def count(device):
        versions = []
        for _ in range(3):
            x = normal(3, device=device) + 1
            view = x[1:]
            x.mul_(2)
            view.add_(1)
            versions += [x._version, view._version]
            del x
            view.add_(1)
            versions.append(view._version)
            del view
        return versions

    assert_same(count)


@pytest.mark.parametrize("inference", [False, True])
def test_keys_are_those_of_any_device(inference):
    def keys(device):
        with torch.inference_mode(inference):
            x = normal(3, device=device) + 1
            return [
                str(torch._C._dispatch_keys(t)).replace("PrivateUse1", "CPU")
                for t in (x, x[1:], x.detach(), torch.empty(3, device=device))
            ]

    assert_same(keys)


# Which of the operands want gradients decides what is saved, and so what may be written to.
@pytest.mark.parametrize("written", ["x", "y", "z"])
@pytest.mark.parametrize("wants", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    "function",
    [
        torch.add,
        torch.mul,
        torch.div,
        torch.matmul,
        lambda x, y: x.tanh() if x.requires_grad else y.tanh(),
        lambda x, y: x * x if x.requires_grad else y * y,
        lambda x, y: torch.where(x > 0, x, y),
        lambda x, y: torch.addmm(x, x, y),
    ],
)
def test_what_is_saved_follows_the_gradients_wanted(function, wants, written):
    def differentiate(device):
        leaves = [normal(3, 3, device=device, grad=w) for w in wants]
        x, y = (t + 0.5 for t in leaves)
        z = function(x, y)
        with torch.no_grad():
            {"x": x, "y": y, "z": z}[written].add_(1)
        try:
            z.sum().backward()
        except RuntimeError as error:
            return "modified by an inplace operation" in str(error)
        return [t.grad for t in leaves]

    assert_same(differentiate)


def test_views_are_inference_tensors_where_their_base_is():
    """Whatever the mode is when they are made."""

    def views(device):
        normal_base = normal(2, 3, device=device)
        with torch.inference_mode():
            inference_base = normal(2, 3, device=device)
            inside = normal_base[1:], normal_base.t(), inference_base[1:], normal_base.detach()
        outside = normal_base[1:], inference_base[1:], inference_base.view(6)
        return [view.is_inference() for view in inside + outside]

    assert_same(views)


def test_a_module_made_before_inference_mode():
    def infer(device):
        layer = torch.nn.Linear(3, 2).to(device)
        x = normal(4, 3, device=device)
        with torch.inference_mode():
            y = layer(x)
            transposed = layer.weight.t()
        layer(x).sum().backward()
        return y.is_inference(), y.clone(), transposed, layer.weight.grad

    assert_same(infer)


def test_writing_in_inference_mode_to_what_autograd_knows():
    def write(device):
        x = normal(4, device=device, grad=True)
        y = x * 2
        with torch.inference_mode():
            y.add_(1)
            part = y[1:3]
            part.mul_(3)
        return y.is_inference(), part.is_inference(), y._version, part._version, y

    assert_same(write)


def test_writing_in_inference_mode_to_a_saved_operand():
    def differentiate(device):
        x = normal(4, device=device, grad=True)
        y = x * 2
        z = y.sin()
        with torch.inference_mode():
            y[1:].zero_()
        z.sum().backward()

    assert "modified by an inplace operation" in assert_same_error(differentiate, RuntimeError)
