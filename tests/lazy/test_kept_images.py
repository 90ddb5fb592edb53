"""Images that a backward in a later trace reads are kept as convolutions have them in memory. They
show the same numbers to whoever reads them, as torch's do."""

import pytest
import torch
from differential import assert_same, normal
from torch import nn
from torch_lazuli.operators import ops

ON_A_GPU = ops._backing().type == "cuda"
pytestmark = pytest.mark.usefixtures("planned")


@pytest.fixture
def planned():
    """Parts keep images as they compute them."""
    with torch.lazuli.config.patch(tiers="plans"):
        yield


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1, stride=2)
        self.side = nn.Conv2d(8, 4, 1)
        self.head = nn.Linear(12 * 3 * 3, 5)
        self.seen = None

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = nn.functional.max_pool2d(x, 2)
        x = self.second(x)
        self.seen = x = torch.cat([x, torch.sigmoid(self.side(x))], 1)
        return self.head(nn.functional.gelu(x).flatten(1))


def net(device):
    torch.manual_seed(3)
    return Net().to(device)


def images(device):
    return normal(2, 3, 12, 12, device=device)


def read(x):
    """On the host, whereupon the trace ends."""
    return torch.tensor(x.item())


def forward(device):
    """A model, its loss, and that the loss was read."""
    model = net(device)
    loss = model(images(device)).square().mean()
    return model, loss, [read(loss)]


def kept(text):
    """Whether the pending trace reads an image as it was kept."""
    return "permute %" in text and "[order=[0,3,1,2]]" in text


def test_steps_that_read_the_loss_before_backward():
    def program(device):
        model = net(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        found = []
        for _ in range(4):
            loss = model(images(device)).square().mean()
            found.append(read(loss))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [*found, *model.state_dict().values()]

    assert_same(program)


def test_they_are_kept_as_they_lie():
    model = net("lazuli")
    with torch.autocast("lazuli", torch.bfloat16, enabled=ON_A_GPU):
        loss = model(images("lazuli")).square().mean()
    loss.item()
    loss.backward()
    assert kept(torch.lazuli.dump())


READERS = {
    "all of it": lambda x: x.clone(),
    "as numpy": lambda x: torch.from_numpy(x.detach().cpu().numpy()),
    "a row": lambda x: x[1, :, 2].clone(),
    "flat": lambda x: x.flatten()[::7].clone(),
    "its memory": lambda x: x.detach().as_strided((5, 3), (7, 2), 4).clone(),
    "a number": lambda x: torch.tensor(x[1, 2, 0, 1].item()),
    "bytes": lambda x: x.detach().view(torch.uint8).clone().view(torch.float32),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("again", [False, True])
def test_readers(reader, again):
    def program(device):
        model, loss, found = forward(device)
        if again:
            found.append(read(model.seen.sum()))
        found.append(reader(model.seen).cpu())
        loss.backward()
        found.append(reader(model.seen))
        return [*found, *(p.grad for p in model.parameters())]

    assert_same(program)


WRITERS = {
    "all of it": lambda x: x.zero_(),
    "a part": lambda x: x[:, 1].mul_(3),
    "memory": lambda x: x.view(-1)[5:9].fill_(2),
}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_writers(writer):
    def program(device):
        model, loss, found = forward(device)
        seen = model.seen.detach()
        writer(seen)
        found.append(seen)
        try:
            loss.backward()
        except RuntimeError as error:  # what was saved has changed
            found.append(type(error).__name__)
        return [*found, *(p.grad for p in model.parameters() if p.grad is not None)]

    assert_same(program)


def test_behind_the_version_counter():
    def program(device):
        model, loss, found = forward(device)
        model.seen.data.mul_(2)
        loss.backward()
        return [*found, *(p.grad for p in model.parameters())]

    assert_same(program)


def test_backward_twice():
    def program(device):
        model, loss, found = forward(device)
        for _ in range(2):
            loss.backward(retain_graph=True)
            found.append(read(model.first.weight.grad.sum()))
        return [*found, *(p.grad for p in model.parameters())]

    assert_same(program)


def test_second_derivatives():
    def program(device):
        model = net(device).eval()
        x = images(device).requires_grad_()
        y = model(x).square().mean()
        found = [read(y)]
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        loss = (g.flatten(1).norm(dim=1) - 1).square().mean()
        found.append(read(loss))
        loss.backward()
        return [*found, x.grad, *(p.grad for p in model.parameters() if p.grad is not None)]

    assert_same(program)


def test_two_forwards_before_backward():
    def program(device):
        model = net(device)
        losses = []
        for _ in range(3):
            losses.append(model(images(device)).square().mean())
            losses[-1].item()
        for loss in reversed(losses):
            loss.backward()
            model.seen.sum().item()
        return [p.grad for p in model.parameters()]

    assert_same(program)


def test_an_image_goes_on_through_several_traces():
    def program(device):
        model = net(device)
        x, found = torch.relu(model.first(images(device))), []
        for _ in range(3):
            x = torch.relu(model.second(x))
            found.append(read(x.sum()))
        x.square().mean().backward()
        return [*found, x, model.first.weight.grad, model.second.weight.grad]

    assert_same(program)


def test_windows_that_move():
    def program(device):
        model, loss, found = forward(device)
        seen = model.seen.detach()
        for i in (0, 1, 0, 1):
            y = seen[i] * 2
            found.append(read(y.sum()))
        loss.backward()
        return [*found, model.first.weight.grad]

    assert_same(program)


def test_autocast():
    def program(device):
        model = net(device)
        with torch.autocast(device, torch.bfloat16):
            loss = model(images(device)).float().square().mean()
        found = [read(loss)]
        loss.backward()
        return [*found, *(p.grad for p in model.parameters())]

    assert_same(program, rtol=3e-2, atol=3e-2)


def test_what_cannot_be_computed():
    """A value that failed fails whoever reads it, an image that was to be kept, too."""
    model = net("lazuli")
    index = torch.tensor([99], device="lazuli")
    x = images("lazuli")[index]
    loss = model(x).square().mean()
    with pytest.raises((RuntimeError, IndexError)):
        loss.item()
    with pytest.raises((RuntimeError, IndexError)):
        model.seen.cpu()
    with pytest.raises((RuntimeError, IndexError)):
        (model.seen.detach() * 2).sum().item()
    with pytest.raises((RuntimeError, IndexError)):
        loss.backward()
