"""Derivatives: backward, grad, hooks, functions of the user's, modes, forward mode, torch.func."""

import torch


def differentiable(x: torch.Tensor) -> bool:
    return x.requires_grad and (x.is_floating_point() or x.is_complex())


def leaf(x: torch.Tensor) -> bool:
    return of_history(x) is True


def inner(x: torch.Tensor) -> bool:
    return of_history(x) is False


def of_history(x: torch.Tensor) -> bool | None:
    """Whether it is a leaf; nothing where it has no gradient or no history to ask for."""
    try:
        return x.is_leaf if differentiable(x) else None
    except RuntimeError:  # a part of a split that was written
        return None


def scalar(b, name: str) -> str:
    """A loss of it."""
    ways = [f"{name}.sum()", f"({name} * {name}).sum()", f"{name}.mean()", f"{name}.sin().sum()"]
    text = b.rng.choice(ways)
    return f"{text}.abs()" if b.get(name).is_complex() else text


def backward(b):
    name = b.pick(inner)
    if name is None:
        return
    more = b.rng.choice(["", "", "retain_graph=True", "create_graph=True"])
    ways = [f"{scalar(b, name)}.backward({more})"] * 4 + [
        f"{name}.backward(torch.ones_like({name}){', ' * bool(more)}{more})",
        f"torch.autograd.backward([{scalar(b, name)}], {more})",
    ]
    b.write(b.rng.choice(ways), name, "backward")


def gradient(b):
    name = b.pick(inner)
    of = [b.pick(differentiable)] if b.rng.random() < 0.6 else [b.pick(leaf), b.pick(has_inner)]
    if name is None or None in of:
        return
    loss = scalar(b, name)
    if len(of) > 1:  # of something that was made of the first, and is hooked
        loss += f" + {scalar(b, of[-1])}"
        if b.rng.random() < 0.5:
            b.add(f"{of[-1]}.register_hook(lambda g: g * 3)")
    more = b.rng.choice(["", ", create_graph=True", ", create_graph=True", ", retain_graph=True"])
    asked = f"{loss}, [{', '.join(of)}]{more}, allow_unused=True"
    b.bind(f"dense(torch.autograd.grad({asked}))", "grad")


def has_history(x: torch.Tensor) -> bool:
    """A view of a leaf that was written under another name has none: eager crashes on its hook."""
    try:
        return differentiable(x) and (x.is_leaf or x.grad_fn is not None)
    except RuntimeError:
        return False


def has_inner(x: torch.Tensor) -> bool:
    return has_history(x) and not x.is_leaf


def hook(b):
    name = b.pick(has_history)
    if name is None:
        return
    way = b.rng.random()
    if way < 0.35:
        b.add(f"{name}.register_hook(lambda g: g * {b.rng.choice(['2', '0.5', '-1'])})")
    elif way < 0.55:
        seen = b.name("h")
        b.add(f"{seen} = []")
        b.add(f"{name}.register_hook({seen}.append)")
    elif way < 0.65:
        b.add(f"{name}.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.5))")
    elif way < 0.75:
        b.add(f"{name}.register_hook(lambda g: g.relu())")
    else:
        b.add(f"{name}.retain_grad()")


def custom(b):
    """What Lazuli has no derivative of, and what torch recomputes."""
    name = b.pick(differentiable) or b.pick(lambda x: x.is_floating_point())
    if name is None:
        return
    ways = [
        f"Double.apply({name})",
        f"checkpoint(lambda x: torch.tanh(x * 2).relu(), {name}, use_reentrant=False)",
        f"checkpoint(lambda x: (x * x).cos(), {name}, use_reentrant=True)",
    ]
    b.bind(b.rng.choice(ways), "custom")


def mode(b):
    """A line under another gradient mode."""
    name, other = b.pick(lambda x: x.is_floating_point()), b.pick()
    if name is None:
        return
    with_ = b.rng.choice(["torch.no_grad()", "torch.enable_grad()", "torch.inference_mode()"])
    target = b.name()
    body = b.rng.choice(
        [
            f"{target} = {name} * {other}",
            f"{target} = torch.relu({name})",
            f"{target} = {name}.view(-1)",
            f"{target} = {name}[..., :1]",
            f"{target} = {name}.clone()\n    {target}.mul_(2)",
        ]
    )
    b.add(f"with {with_}:\n    {body}")
    b.producer[target] = "mode"


UNARY = """
    x.sin() x*x torch.tanh(x) x.exp() F.gelu(x) F.softmax(x,-1) x.sum() x.cumsum(-1) x.mT
    x.abs() x.mean(-1) F.layer_norm(x,x.shape[-1:]) x.reshape(-1) x.relu()*x x.sigmoid()
    x.cumprod(-1) x.prod(-1)
    torch.cat([x,x]) x.clone().mul_(2) x[...,:1] x.flip(-1) x.std(-1)
""".split()  # noqa: SIM905


def forward_mode(b):
    if not b.alone:  # torch has one level of it for all threads
        return
    name = b.pick(lambda x: x.is_floating_point() and x.dim() > 0)
    if name is None:
        return
    one, two = b.name(), b.name()
    lines = [
        "with fwad.dual_level():",
        f"    x = fwad.make_dual({name}.detach(), {name}.detach().cos())",
        f"    y = {b.rng.choice(UNARY)}",
        f"    {one}, {two} = (t.clone() for t in fwad.unpack_dual(y))",
        "del x, y",
    ]
    text = "\n".join(lines)
    b.add(text)
    b.producer.update({one: "forward_ad", two: "forward_ad"})


def functional(b):
    # torch crashes in derivatives of cat over no elements.
    name = b.pick(lambda x: x.is_floating_point() and x.dim() > 0 and x.numel() > 0)
    if name is None:
        return
    body = b.rng.choice(UNARY)
    ways = [
        f"torch.func.grad(lambda x: ({body}).sum())({name}.detach())",
        f"torch.func.vmap(lambda x: {body})({name})",
        f"torch.func.jvp(lambda x: {body}, ({name}.detach(),), ({name}.detach(),))[1]",
        f"torch.func.vmap(torch.func.grad(lambda x: ({body}).sum()))({name}.detach())",
        f"torch.func.jacrev(lambda x: {body})({name}.detach())",
        f"torch.autograd.functional.vjp(lambda x: {body}, {name}.detach(), None)[0]",
    ]
    b.bind(b.rng.choice(ways), "func")


def zero(b):
    name = b.pick(leaf)
    if name is not None:
        b.add(f"{name}.grad = {b.rng.choice(['None', f'torch.zeros_like({name})'])}")


def take(b):
    """A gradient as a variable."""
    name = b.pick(lambda x: leaf(x) and x.grad is not None)
    if name is not None:
        b.bind(f"dense([{name}.grad])", "grad")
