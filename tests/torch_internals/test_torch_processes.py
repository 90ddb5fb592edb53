"""backend/python/torch_lazuli/torch_internals/processes.py"""

import torch
from torch.multiprocessing import reductions


def test_tensors_are_sent_by_one_reducer(monkeypatch):
    found = {}

    class Reduction:
        @staticmethod
        def register(kind, reducer):
            found[kind] = reducer

    monkeypatch.setattr(reductions, "reduction", Reduction)
    reductions.init_reductions()
    sent = {kind for kind, reducer in found.items() if reducer is reductions.reduce_tensor}
    tensors = {k for k in found if isinstance(k, type) and issubclass(k, torch.Tensor)}
    assert {torch.Tensor, torch.nn.Parameter} <= tensors <= sent, (
        "torch.multiprocessing must send tensors by `reduce_tensor`, which it registers with "
        "ForkingPickler for each class of tensors"
    )
