"""Loaders of data: samples and batches are made on the host, in their processes too."""

import functools

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.utils import data
from torch.utils._pytree import tree_map_only
from torch.utils.data._utils import fetch, worker
from torch.utils.data.dataloader import _BaseDataLoaderIter

from torch_lazuli.devices import TYPE
from torch_lazuli.takeover.policy import OWN, state

_device_of = torch._C.TensorBase.device.__get__
_to = torch._C.TensorBase.to
_to_host = torch._C.TensorBase.cpu


def install() -> None:
    """Puts the functions in place."""
    _make_batches_on_host()
    _yield_batches_on_device()
    _keep_datasets_on_host()
    _read_lengths_on_host()


def _make_batches_on_host() -> None:
    for fetcher in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        fetcher.fetch = _on_host(fetcher.fetch)
    loop = worker._worker_loop

    @functools.wraps(loop)
    def worker_loop(*args, **kwargs):
        state.stay_on_host()
        loop(*args, **kwargs)

    worker._worker_loop = worker_loop


def _on_host(original):
    @functools.wraps(original)
    def method(*args, **kwargs):
        with state.on_host():
            return original(*args, **kwargs)

    return method


def _yield_batches_on_device() -> None:
    """In a program that names no device."""
    original = _BaseDataLoaderIter.__next__

    @functools.wraps(original)
    def next_batch(self):
        batch = original(self)
        return _to_device(batch) if state.cpu else batch

    _BaseDataLoaderIter.__next__ = next_batch


def _to_device(batch):
    """A packed sequence moves itself: its lengths stay on the host."""
    leaves = (torch.Tensor, PackedSequence)
    is_leaf = lambda node: isinstance(node, PackedSequence)  # noqa: E731
    move = lambda leaf: _to(leaf, OWN) if isinstance(leaf, torch.Tensor) else leaf.to(OWN)  # noqa: E731
    return tree_map_only(leaves, move, batch, is_leaf=is_leaf)


def _keep_datasets_on_host() -> None:
    """Tensors from which samples are taken one by one."""
    original = data.TensorDataset.__init__

    @functools.wraps(original)
    def init(self, *tensors):
        if state.cpu:
            tensors = [_to_host(t) if _device_of(t).type == TYPE else t for t in tensors]
        original(self, *tensors)

    data.TensorDataset.__init__ = init


def _read_lengths_on_host() -> None:
    """The lengths of sequences that are packed: torch takes them on the CPU only."""
    rnn = torch.nn.utils.rnn
    original = rnn.pack_padded_sequence

    @functools.wraps(original)
    def pack_padded_sequence(input, lengths, *args, **kwargs):
        if isinstance(lengths, torch.Tensor):
            lengths = _to_host(lengths)
        return original(input, lengths, *args, **kwargs)

    rnn.pack_padded_sequence = pack_padded_sequence
