"""Random operators; under LAZULI_RANDOM=eager they draw eager's numbers."""

from fuzz import adapt


def bernoulli(b, first: str | None = None) -> list[str]:
    """As the operators of OpInfo are called, of which it is none."""
    name = first or b.pick(lambda x: x.numel() > 0)
    if not b.alone or name is None or b.get(name).is_complex():
        return []
    chances = f"{name}.sigmoid()"
    producers = b.producers([name])
    results = b.bind(f"torch.bernoulli({chances})", "bernoulli")
    if results:
        b.met(producers, "bernoulli")
    return results


def draw(b):
    if not b.alone:  # threads share a generator
        return
    name = b.pick(lambda x: x.is_floating_point() and x.numel() > 0)
    if name is None:
        return
    made = [
        f"torch.randn_like({name})",
        f"torch.rand_like({name})",
        f"F.dropout({name}, 0.5)",
        f"torch.bernoulli(torch.sigmoid({name}))",
        f"torch.rand({name}.shape, device=dev)",
        "torch.randn(3, 4, device=dev)",
        "torch.randint(0, 5, (4,), device=dev)",
        "torch.randperm(5, device=dev)",
        f"F.alpha_dropout({name}, 0.3, training=True)",
        f"torch.normal({name}, 1.0)",
        f"F.rrelu({name}, training=True)",
        "torch.multinomial(torch.ones(5, device=dev), 3)",
        f"F.gumbel_softmax({name}, dim=-1)",
    ]
    written = [
        f"{name}.data.bernoulli_(0.5)",
        f"{name}.data.uniform_()",
        f"{name}.data.normal_()",
        f"{name}.data.random_(5)",
        f"{name}.data[..., :1].normal_()",
        f"F.dropout({name}.data, inplace=True)",
    ]
    if b.rng.random() < 0.1:
        b.add(f"torch.manual_seed({b.rng.randrange(9)})")
    elif b.rng.random() < 0.7 or adapt.overlaps(b.get(name)):
        b.bind(b.rng.choice(made), "random")
    else:
        b.write(b.rng.choice(written), name, "random")
