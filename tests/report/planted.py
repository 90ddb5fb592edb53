"""Small training programs, each with one thing that costs time or memory, and one without.

The line of the problem has the mark `# <- here`.
"""

import inspect
import itertools

import numpy as np
import torch

STEPS = 24


# The device remembers traces, and the lines of those that it knows: each program has its own sizes.
widths = itertools.count(16)


def model_and_batches():
    torch.manual_seed(0)
    width = next(widths)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, width), torch.nn.GELU(), torch.nn.Linear(width, 8)
    )
    model = model.to("lazuli")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return model, optimizer, [torch.randn(4, 8) for _ in range(STEPS)]


def step(optimizer, loss):
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def clean():
    model, optimizer, batches = model_and_batches()
    total = torch.zeros((), device="lazuli")
    for batch in batches:
        loss = model(batch.to("lazuli")).square().mean()
        step(optimizer, loss)
        total += loss.detach()
    return total.item()


def clean_inference():
    model, _, batches = model_and_batches()
    with torch.no_grad():
        return [model(batch.to("lazuli")).cpu() for batch in batches]


def clean_buffer_of_numpy():
    """One array that is filled anew for each step, which torch does not see."""
    model, _, batches = model_and_batches()
    array = np.zeros(batches[0].shape, dtype=np.float32)
    shared = torch.from_numpy(array)
    results = []
    with torch.no_grad():
        for batch in batches:
            array[:] = batch.numpy()
            results.append(model(shared.to("lazuli")).cpu())
    return results


def read_in_the_loop():
    model, optimizer, batches = model_and_batches()
    for batch in batches:
        loss = model(batch.to("lazuli")).square().mean()
        if loss > 100:  # <- here
            loss = loss * 0.5
        step(optimizer, loss)


def item_for_logging():
    model, optimizer, batches = model_and_batches()
    log = []
    for batch in batches:
        loss = model(batch.to("lazuli")).square().mean()
        log.append(loss.item())  # <- here
        step(optimizer, loss)


def number_in_a_shape():
    model, optimizer, batches = model_and_batches()
    for i, batch in enumerate(batches):
        out = model(batch.to("lazuli"))
        weights = torch.ones(i + 1, device="lazuli")  # <- here
        step(optimizer, out.square().mean() * weights.sum())


def list_that_grows():
    model, optimizer, batches = model_and_batches()
    history = []
    for batch in batches:
        loss = model(batch.to("lazuli")).square().mean()
        history.append(loss.detach())
        average = torch.stack(history).mean()  # <- here
        step(optimizer, loss / average)


def op_without_a_row():
    model, optimizer, batches = model_and_batches()
    for batch in batches:
        out = model(batch.to("lazuli"))
        distance = torch.cdist(out.detach(), out.detach())  # <- here
        step(optimizer, out.square().mean() * distance.mean())


def mask_indexed_by_data():
    model, optimizer, batches = model_and_batches()
    for batch in batches:
        out = model(batch.to("lazuli"))
        chosen = out[out > 0]  # <- here
        step(optimizer, chosen.square().mean())


def new_shape_each_step():
    model, optimizer, batches = model_and_batches()
    for i, batch in enumerate(batches):
        x = batch.repeat(2, 1).flatten().repeat(4)[: 8 * (i + 1)].view(i + 1, 8).to("lazuli")
        out = model(x)  # <- here
        step(optimizer, out.square().mean())


def gradients_kept():
    model, optimizer, batches = model_and_batches()
    total = 0
    for batch in batches:
        loss = model(batch.to("lazuli")).square().mean()
        step(optimizer, loss)
        total = total + loss  # <- here
    return total


def cpu_tensor_moved_each_step():
    model, optimizer, batches = model_and_batches()
    scale = torch.linspace(0, 1, 8)
    for batch in batches:
        out = model(batch.to("lazuli"))
        out = out * scale.to("lazuli")  # <- here
        step(optimizer, out.square().mean())


def hook_that_forces_nodes():
    model, optimizer, batches = model_and_batches()
    norms = []
    for batch in batches:
        hidden = model[0](batch.to("lazuli"))
        hidden.register_hook(lambda gradient: norms.append(gradient.norm()))  # <- here
        step(optimizer, model[2](model[1](hidden)).square().mean())


# By what the advice is called.
PROBLEMS = {
    "read": read_in_the_loop,
    "log": item_for_logging,
    "number in a shape": number_in_a_shape,
    "growing list": list_that_grows,
    "no kernel": op_without_a_row,
    "mask": mask_indexed_by_data,
    "new shape": new_shape_each_step,
    "kept history": gradients_kept,
    "moved again": cpu_tensor_moved_each_step,
    "hook": hook_that_forces_nodes,
}


def line_of(program) -> int:
    """The line of this file that has the problem's mark."""
    lines, first = inspect.getsourcelines(program)
    return next(first + i for i, line in enumerate(lines) if "# <- here" in line)
