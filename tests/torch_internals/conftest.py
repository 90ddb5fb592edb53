"""Tests of torch itself: what Lazuli needs of it and torch promises to nobody.

Each is for one file of backend/torch_internals/ or of the Python package's torch_internals/. Where
one fails under a new torch, its message says what torch no longer does; the file says why Lazuli
needs it. Other tests fail too, then; these name the cause.
"""

import ctypes

import pytest
import torch

POINTER, NUMBER = ctypes.c_void_p, ctypes.c_uint32
QUESTIONS = {
    "imported_function": (POINTER, ctypes.c_char_p),
    "output_number": (NUMBER, POINTER),
    "set_output_number": (None, POINTER, NUMBER),
    "is_plain": (ctypes.c_bool, POINTER),
    "leaf_is_hooked": (ctypes.c_bool, POINTER),
    "leaf_is_locked": (ctypes.c_bool, POINTER),
    "vmap_size": (ctypes.c_int64, POINTER, ctypes.c_bool),
}


class Questions:
    """The questions of backend/torch_internals/questions.cpp, over tensors and numbers."""

    def __init__(self, path):
        library = ctypes.CDLL(str(path))
        for name, (result, *arguments) in QUESTIONS.items():
            function = getattr(library, "lazuli_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, self._asking(function))

    @staticmethod
    def _asking(function):
        return lambda *arguments: function(
            *(a._cdata if isinstance(a, torch.Tensor) else a for a in arguments)
        )


@pytest.fixture(scope="session")
def ask(device) -> Questions:
    from torch_lazuli import library

    return Questions(library.find(torch.__version__))


@pytest.fixture
def spy(monkeypatch):
    """Replaces `owner.name` by a function that notes its calls, and gives `result` if it is set."""

    def replace(owner, name, *, result=None):
        calls = []

        def noted(*arguments, **named):
            calls.append((arguments, named))
            return original(*arguments, **named) if result is None else result

        original = getattr(owner, name)
        monkeypatch.setattr(owner, name, noted)
        return calls

    return replace
