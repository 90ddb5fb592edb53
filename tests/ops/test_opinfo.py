"""Every native op against cpu, over torch's own OpInfo samples: values, gradients, in place.

Cases and comparison are those of the conformance suite (`op_cases.py`, `agreement.py`): numbers
within torch's tolerance for the type or explained element by element, and errors too. The first
LAZULI_OPINFO_SAMPLES samples (12; `all` for all) of each op and dtype are run; of gradients, of
what is in place and of float16 half as many or a quarter.
"""

import pytest
import torch
from differences import listed, must_differ
from native_ops import ELSEWHERE, NAMES
from op_cases import cases, run
from op_samples import SAMPLES, full_name
from torch.testing._internal.common_methods_invocations import op_db

HALF, QUARTER = max(1, SAMPLES // 2), max(1, SAMPLES // 4)
FORWARD = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
TYPES = {
    "forward": {**dict.fromkeys(FORWARD, SAMPLES), torch.float16: HALF},
    "backward": {
        torch.float32: HALF,
        torch.float64: HALF,
        torch.bfloat16: QUARTER,
        torch.float16: QUARTER,
    },
    "in_place": {torch.float32: HALF, torch.int64: HALF},
}


def chosen(aspect):
    """pytest's parameters; what is listed may differ in the last sample only."""
    reasons = listed("opinfo", cases())
    for name in NAMES:
        for dtype, most in TYPES[aspect].items():
            full = f"{name}/{aspect}/{str(dtype).split('.')[1]}"
            if full not in cases():
                continue
            reason = reasons.get(full)
            marks = [pytest.mark.xfail(reason=reason, strict=must_differ(reason))] if reason else []
            yield pytest.param(full, None if reason else most, marks=marks, id=full)


@pytest.mark.parametrize(("name", "most"), list(chosen("forward")))
def test_values(name, most, device):
    run(cases()[name], most)


@pytest.mark.parametrize(("name", "most"), list(chosen("backward")))
def test_gradients(name, most, device):
    run(cases()[name], most)


@pytest.mark.parametrize(("name", "most"), list(chosen("in_place")))
def test_in_place(name, most, device):
    run(cases()[name], most)


def falls_back(name: str) -> bool:
    """Whether the operator is registered for its form alone, with the boxed fallback."""
    lines = torch._C._dispatch_dump(name).splitlines()
    return any(line.startswith("PrivateUse1:") and line.endswith("[ boxed ]") for line in lines)


def test_no_native_op_is_missing(device):
    torch.empty(0, device=device)  # the kernels are registered when the device is first used
    operators = {
        name.split("::")[1].split(".")[0].rstrip("_")
        for name in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
        if name.startswith("aten::") and not falls_back(name)
    }
    assert operators
    known = set(NAMES) | set(ELSEWHERE.split())
    missing = [
        full_name(op)
        for op in op_db
        if {op.aten_name.split(".")[0].rstrip("_"), op.name.split(".")[-1]} & operators
        and full_name(op) not in known
    ]
    assert not missing
