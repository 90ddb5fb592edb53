"""Numbers that a tensor's type does not hold: where eager raises an error, so does the device."""

import pytest
import torch
import torch.nn.functional as F

MASK = [True, False, True]
CASES = {
    "masked_fill half": lambda d: half(d).masked_fill(torch.tensor(MASK, device=d), -1e9),
    "masked_fill_ half": lambda d: half(d).masked_fill_(torch.tensor(MASK, device=d), -1e9),
    "masked_fill infinite": lambda d: half(d).masked_fill(torch.tensor(MASK, device=d), -torch.inf),
    "masked_fill largest": lambda d: half(d).masked_fill(torch.tensor(MASK, device=d), 65504.0),
    "full_like": lambda d: torch.full_like(half(d), -1e9),
    "fill_ float": lambda d: torch.zeros(3, device=d).fill_(1e300),
    "fill_ bfloat16": lambda d: torch.zeros(3, device=d, dtype=torch.bfloat16).fill_(3.4e38),
    "fill_ nan": lambda d: half(d).fill_(torch.nan),
    "clamp": lambda d: half(d).clamp(min=-1e9),
    "clamp_": lambda d: half(d).clamp_(max=1e9),
    "clamp infinite": lambda d: (half(d) + 2).clamp(-torch.inf, 1),
    "x[mask] = number": lambda d: assigned(half(d), torch.tensor(MASK, device=d), 1e5),
    "x[mask] = negative": lambda d: assigned(half(d), torch.tensor(MASK, device=d), -1e5),
    "x[0] = number": lambda d: assigned(half(d), 0, -1e9),
    "pad half": lambda d: F.pad(half(d), (1, 1), value=-1e9),
    "pad uint8": lambda d: F.pad(byte(d), (1, 1), value=-1),
    "pad bool": lambda d: F.pad(torch.tensor(MASK, device=d), (1, 1), value=True),
    "index_fill": lambda d: byte(d).index_fill(0, torch.tensor([1], device=d), 256),
    "scatter": lambda d: byte(d).scatter(0, torch.tensor([1], device=d), 300),
    "scatter_ half": lambda d: half(d).scatter_(0, torch.tensor([1], device=d), 1e6),
    "x[0] = number, float": lambda d: assigned(torch.zeros(3, device=d), 0, 1e300),
    "where": lambda d: torch.where(single(d) > 2, 1e300, single(d)),
    "power half": lambda d: half(d) ** 70000.0,
    "power": lambda d: half(d) ** 1e300,
    "add alpha half": lambda d: half(d).add(half(d), alpha=70000.0),
    "add alpha": lambda d: single(d).add(single(d), alpha=1e300),
    "addcmul": lambda d: torch.addcmul(single(d), single(d), single(d), value=1e300),
    "lerp": lambda d: torch.lerp(single(d), single(d), 1e300),
    "leaky_relu": lambda d: F.leaky_relu(single(d), 1e300),
    "softplus": lambda d: F.softplus(single(d), 1e300),
    "elu": lambda d: F.elu(single(d), 1e300),
    "celu": lambda d: F.celu(single(d), 1e300),
    "full_like complex": lambda d: torch.full_like(
        torch.zeros(3, dtype=torch.complex64, device=d), 1e300
    ),
    "added": lambda d: half(d) + 1e9,
    "multiplied": lambda d: (half(d) + 1) * -1e9,
}


def half(device):
    return torch.zeros(3, dtype=torch.float16, device=device)


def single(device):
    return torch.arange(6.0, device=device)


def byte(device):
    return torch.zeros(3, dtype=torch.uint8, device=device)


def assigned(x, index, number):
    x[index] = number
    return x


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_as_eager(case, device):
    try:
        expected = case("cpu")
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=str(error).split(" without")[0]):
            case(device).cpu()
    else:
        torch.testing.assert_close(case(device).cpu(), expected, equal_nan=True)
