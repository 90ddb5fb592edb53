"""What tests of torch.compile's backend `lazuli` have in common."""

import torch


def compiled(function, **options):
    return torch.compile(function, backend="lazuli", fullgraph=True, **options)


def check(function, *calls, where="lazuli", **options):
    """Compares results with eager's for each list of arguments, and what was written to them."""
    run = compiled(function, **options)
    for arguments in calls:
        eager = [a.clone() for a in arguments]
        ours = [a.clone().to(where) for a in arguments]
        expected, got = function(*eager), run(*ours)
        torch.testing.assert_close(on_cpu(got), expected)
        torch.testing.assert_close(on_cpu(ours), eager)


def on_cpu(value):
    return torch.utils._pytree.tree_map(lambda t: t.cpu() if torch.is_tensor(t) else t, value)
