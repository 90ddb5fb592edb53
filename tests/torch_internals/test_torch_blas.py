"""lowering/libraries/product/host_blas.cpp, which has torch's BLAS by weak symbols"""

import ctypes
from pathlib import Path

import torch


def test_torch_exports_its_blas():
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    for name in ("sgemm_", "dgemm_"):
        assert hasattr(library, name), (
            f"libtorch_cpu must export {name}: without it products of float64 are our own, slower"
        )
