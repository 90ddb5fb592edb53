"""Reads in the middle, and statements that depend on what was read."""


def read(b):
    name = b.pick(lambda x: x.numel() > 0)
    if name is None:
        return
    x = b.get(name)
    ways = [
        f"{name}.tolist()",
        f"{name}.detach().cpu().resolve_conj().resolve_neg().numpy().copy()",
        f"repr({name}.detach())",
        f"{name}.cpu().clone()",
        f"bool({name}.any())",
        f"len({name})",
        f"int({name}.count_nonzero())",
        f"{name}.detach().cpu().clone()",
        f"[row.detach().cpu().clone() for row in {name}]",
        f"str({name}.shape)",
        f"torch.equal({name}, {name})",
        f"{name}.is_contiguous()",
        f"{name}.nonzero().shape[0]",
    ]
    if x.numel() == 1:
        ways += [f"{name}.item()", f"bool({name})"] * 3
    elif not x.is_complex():
        ways += [f"{name}.max().item()", f"{name}.sum().item()"] * 2
    if x.element_size() in (2,):
        ways = [w for w in ways if "numpy" not in w]
    b.bind(b.rng.choice(ways), "read", letter="r")


def branch(b):
    name = b.pick(lambda x: x.numel() > 0 and not x.is_complex())
    if name is None:
        return
    b.add(f"if ({name} > 0).any():\n    {name} = {name} * 2\nelse:\n    {name} = {name} + 1")


def loop(b):
    """A statement again and again, as training loops have them."""
    name = b.pick(lambda x: x.is_floating_point())
    if name is None:
        return
    other = b.pick(lambda x: x.is_floating_point())
    times = b.rng.choice([2, 3, 5, 12])
    body = b.rng.choice(
        [
            f"{name} = {name} * 0.5 + {other}",
            f"{name} = torch.tanh({name})",
            f"{name}.mul_(0.5).add_(1)",
            f"{name} = {name} - {name}.mean()",
            f"{name} = torch.cat([{name}, {other}])[:4]",
            f"{name}[i % 2:].add_(i)",
            f"{name} = F.softmax({name} + i, -1)",
            f"{name} = {name}.roll(1) + i",
            f"{name}.data.add_({other}.detach().sum())",
            f"{name} = torch.where({name} > i, {name}, {other})",
        ]
    )
    if b.wants_grad and b.rng.random() < 0.3:
        text = f"with torch.no_grad():\n    for i in range({times}):\n        {body}"
    else:
        text = f"for i in range({times}):\n    {body}"
    b.write(text, name, "loop")
