"""backend/python/torch_lazuli/torch_internals/processes.py"""

import multiprocessing.context
from multiprocessing import get_context

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


class AsksWhenSent:
    def __reduce__(self):
        popen = multiprocessing.context.get_spawning_popen()
        return bool, (popen is not None,)


def _answer(queue, was_spawning):
    queue.put(was_spawning)


def test_what_a_process_starts_with_is_known():
    assert multiprocessing.context.get_spawning_popen() is None
    context = get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_answer, args=(queue, AsksWhenSent()))
    process.start()
    assert queue.get(timeout=60), "get_spawning_popen must be set while arguments are pickled"
    process.join()


def test_modules_share_memory_by_a_method_of_storages(spy):
    calls = spy(torch.UntypedStorage, "share_memory_")
    torch.nn.Linear(2, 2).share_memory()
    torch.ones(2).share_memory_()
    assert len(calls) == 3, "share_memory_() of tensors must ask their UntypedStorage"
