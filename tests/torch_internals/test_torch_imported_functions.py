"""backend/torch_internals/imported_functions.h"""

from pathlib import Path

import pytest
import torch
from torch_lazuli import library

PLUGIN = library.find(torch.__version__)
LOADER = library.loader_of(PLUGIN)
SYMBOLS = {
    "_ZN3c1033is_privateuse1_backend_registeredEv": (LOADER, "backward on CUDA tensors fails"),
    "_ZN2at11accelerator13isAcceleratorEN3c1010DeviceTypeE": (
        LOADER,  # whether the device is used or not
        "backward on CUDA tensors fails",
    ),
    "GOMP_parallel": (PLUGIN, "OpenMP's threads and ours are awake at once"),
}


def library_at(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[-1]
    return ""


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_torch_calls_it_through_its_table_of_imports(ask, symbol):
    owner, otherwise = SYMBOLS[symbol]
    address = ask.imported_function(symbol.encode())
    assert address, (
        f"libtorch_cpu must call {symbol} through its table of imported functions (DT_JMPREL), and "
        f"the table must be writable: else {otherwise} beside the device"
    )
    assert library_at(address).endswith(owner.name), f"the entry of {symbol} is not ours"
