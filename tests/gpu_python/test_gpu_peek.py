"""Reading what does not depend on the work queued on the GPU waits for none of it."""

import pytest
import torch
from torch_lazuli.operators import ops

pytestmark = pytest.mark.gpu


def test_a_read_beside_queued_work():
    a = torch.full((4096, 4096), 1 / 4096, device="cuda").to("lazuli")
    torch.lazuli.synchronize()

    def queue():
        x = a
        for _ in range(400):  # a second or so
            x = x @ a
        ops._step_end()
        return x

    def read():
        mask = torch.ones(16, dtype=torch.bool, device="lazuli")
        return bool(mask.all())

    for again in (False, True):
        x = queue()
        y = x * 2
        torch.lazuli.reset_metrics()
        assert read()
        if again:  # nothing was compiled meanwhile
            assert not torch.lazuli.current_stream().query(), "the queued work was waited for"
        metrics = torch.lazuli.metrics()
        assert metrics["peeks"] == 1
        assert not metrics["syncs"]
    torch.testing.assert_close(y[0, 0].item(), 2 / 4096, rtol=1e-4, atol=0)


def test_what_depends_on_queued_work_waits_for_it():
    a = torch.eye(2048, device="cuda").to("lazuli")
    x = a
    for _ in range(50):
        x = x @ a
    ops._step_end()
    other = a + 1
    assert x[3, 3].item() == 1
    assert other[0, 0].item() == 2
