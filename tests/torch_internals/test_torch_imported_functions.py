"""backend/torch_internals/imported_functions.h"""

from pathlib import Path

import pytest
import torch
from torch_lazuli import library

SYMBOLS = {
    "_ZN3c1033is_privateuse1_backend_registeredEv": "backward on CUDA tensors fails",
    "_ZN2at11accelerator13isAcceleratorEN3c1010DeviceTypeE": "backward on CUDA tensors fails",
    "GOMP_parallel": "OpenMP's threads and ours are awake at once",
}


def library_at(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[-1]
    return ""


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_torch_calls_it_through_its_table_of_imports(ask, symbol):
    address = ask.imported_function(symbol.encode())
    assert address, (
        f"libtorch_cpu must call {symbol} through its table of imported functions (DT_JMPREL), and "
        f"the table must be writable: else {SYMBOLS[symbol]} beside the device"
    )
    assert library_at(address).endswith(library.find(torch.__version__).name), (
        f"the entry of {symbol} is not ours"
    )
