"""Kernels that are executed without being compiled give the same bits as compiled ones."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, torch
from torch import nn
torch.manual_seed(0)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 24), nn.BatchNorm1d(24),
            nn.Tanh(), nn.Dropout(0.2), nn.Linear(24, 5))
    def forward(self, x):
        return self.layers(x).float().softmax(-1).log()
model = Model().to("lazuli")
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
table = torch.randn(9, 12, device="lazuli")
outcomes = []
for step in range(12):
    rows = torch.arange(33, device="lazuli").mul(step + 1).remainder(9)
    x = table[rows] + torch.randn(33, 12, device="lazuli")
    loss = nn.functional.nll_loss(model(x), rows % 5) + model(x).exp().std(0).logsumexp(0)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    narrow = [x.bfloat16().cumsum(0).amax(), x.half().erf().mean()]
    values = [loss, norm, x.argmax(1).sum(), (x.double() ** 2).sum(), *narrow]
    outcomes.append([float(v).hex() for v in values])
metrics = torch.lazuli.metrics()
counts = {kind: metrics[f"kernels_{kind}"] for kind in ("compiled", "in_bytecode")}
print(json.dumps({"outcomes": outcomes} | counts))
"""


def run(**settings: str) -> dict:
    env = os.environ | {"LAZULI_CACHE_DIR": "", "OMP_NUM_THREADS": "1"} | settings
    command = [sys.executable, "-c", SCRIPT]
    return json.loads(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout)


@pytest.mark.parametrize("cpu", ["", "avx2"])
def test_the_same_bits_as_compiled(cpu):
    compiled = run(LAZULI_BYTECODE="never", LAZULI_CPU=cpu)
    assert compiled["in_bytecode"] == 0
    for use in ("always", "auto"):
        found = run(LAZULI_BYTECODE=use, LAZULI_CPU=cpu)
        assert found["outcomes"] == compiled["outcomes"]
        assert found["compiled"] == compiled["compiled"]
        assert found["in_bytecode"] > compiled["compiled"] // 2


def test_a_setting_that_nobody_knows_is_an_error():
    with pytest.raises(subprocess.CalledProcessError):
        run(LAZULI_BYTECODE="sometimes")
