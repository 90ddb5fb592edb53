"""Kernels that another process has compiled are loaded, and only what it wrote."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, torch
torch.manual_seed(0)
from torch.nn import GELU, LayerNorm, Linear, Sequential
model = Sequential(Linear(8, 16), LayerNorm(16), GELU(), Linear(16, 3)).to("lazuli")
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(5, 8).to("lazuli"), torch.tensor([0, 1, 2, 0, 1]).to("lazuli")
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x).double().erf(), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())
counts = {kind: torch.lazuli.metrics()[f"kernels_{kind}"] for kind in ("compiled", "loaded")}
print(json.dumps({"losses": losses} | counts))
"""


def run(cache: Path | str, **settings: str) -> dict:
    env = os.environ | {"LAZULI_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}
    env |= {"LAZULI_UNPLANNED": "never"} | settings
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def kept(cache: Path) -> list[Path]:
    return sorted((cache / "cpu").iterdir())


@pytest.fixture
def filled(tmp_path):
    """A cache that one process has filled, and what that saw."""
    return tmp_path, run(tmp_path)


def test_a_second_process_compiles_nothing(filled):
    cache, first = filled
    assert first["compiled"] > 5
    assert first["loaded"] == 0
    again = run(cache)
    assert again == {"losses": first["losses"], "compiled": 0, "loaded": first["compiled"]}


def test_without_a_folder_nothing_is_kept(filled):
    _, first = filled
    assert run("") == first


def test_files_that_were_changed_are_compiled_again_and_replaced(filled):
    cache, first = filled
    rng = random.Random(0)
    for i, file in enumerate(kept(cache)):
        content = bytearray(file.read_bytes())
        if i % 3 == 0:
            del content[rng.randrange(len(content)) :]
        elif i % 3 == 1:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        else:
            content = bytearray(rng.randbytes(len(content)))
        file.write_bytes(content)
    assert run(cache) == first
    assert run(cache)["compiled"] == 0


def test_files_in_one_anothers_place_are_not_run(filled):
    cache, first = filled
    files = kept(cache)
    contents = [file.read_bytes() for file in files]
    for file, content in zip(files, contents[1:] + contents[:1], strict=True):
        file.write_bytes(content)
    assert run(cache) == first


def test_code_for_another_processor_is_not_run(filled):
    cache, _ = filled
    other = run(cache, LAZULI_CPU="avx2")
    assert other["loaded"] == 0
    assert run(cache)["compiled"] == 0
    assert run(cache, LAZULI_CPU="avx2") == {**other, "compiled": 0, "loaded": other["compiled"]}
