"""The oracle itself: planted faults are seen, and rounding alone is not."""

import copy

import pytest
import rounding
import torch
from noise import Noise

from fuzz import oracle
from fuzz.execute import Raised, execute
from fuzz.observe import GEOMETRY
from fuzz.program import Program, assigned, operators
from fuzz.scope import EAGER

PROGRAM = Program(
    (
        "v1 = normal((3, 4), 1).requires_grad_()",
        "v2 = v1.detach()[1:]",
        "v3 = torch.softmax(v1 * 3, -1)",
        "v3.sum().backward()",
        "v4 = torch.gather(v2, 0, data([[7]], torch.int64))",
        "v5 = v2.argmax(-1)",
        "r6 = v2.sum().item()",
        "v7 = v2.to(BF16)",
    )
)


@pytest.fixture(scope="module")
def eager():
    return execute(PROGRAM, EAGER)


@pytest.fixture
def planted(eager):
    return copy.deepcopy(eager)


def found(eager, other):
    difference = oracle.compare(PROGRAM, eager, other)
    return difference and difference.kind


END = (0, len(PROGRAM.statements))


def test_eager_agrees_with_itself(eager, planted):
    assert eager.errors[0, 4].kind == "RuntimeError"
    assert found(eager, planted) is None


@pytest.mark.parametrize("path", ["v1", "v1.grad", "v3", "v7"])
def test_a_wrong_value(eager, planted, path):
    planted.values[END][path].flatten()[1] += 0.1
    assert found(eager, planted) == "value"


@pytest.mark.parametrize("path", ["v5", "r6"])
def test_a_wrong_integer_and_a_wrong_read(eager, planted, path):
    planted.values[END][path] += 1
    assert found(eager, planted) in ("value", "read")


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_what_is_no_number(eager, planted, wrong):
    planted.values[END]["v3"][0, 0] = wrong
    assert found(eager, planted) == "value"


def test_the_sign_of_a_zero():
    zero = torch.zeros(2)
    assert rounding.wrong(-zero, zero).all()
    assert not rounding.wrong(zero, zero.clone()).any()


def test_a_nan_of_another_sign_is_the_same():
    nan = torch.tensor([float("nan")])
    assert not rounding.wrong(-nan, nan).any()


@pytest.mark.parametrize("fact", ["stride", "version", "dtype", "requires_grad", "offset", "conj"])
def test_geometry(eager, planted, fact):
    facts = list(planted.geometry[0, 2]["v3"])
    facts[GEOMETRY.index(fact)] = "other"
    planted.geometry[0, 2]["v3"] = tuple(facts)
    assert found(eager, planted) == fact


def test_aliases(eager, planted):
    assert ("v1", "v2") in planted.aliases[END]
    planted.aliases[END] = frozenset()
    assert found(eager, planted) == "aliasing"


def test_errors(eager, planted):
    error = planted.errors.pop((0, 4))
    assert found(eager, planted) == "error missing"
    planted.errors[0, 4] = Raised(error.kind, "another message")
    assert found(eager, planted) == "error message"
    planted.errors[0, 4] = Raised("ValueError", error.message)
    assert found(eager, planted) == "error class"
    planted.errors[0, 4] = Raised(error.kind, "gather: words of its own", late=True)
    assert found(eager, planted) is None
    planted.errors[0, 2] = Raised("RuntimeError", "out of the blue")
    assert found(eager, planted) == "error"


def test_a_value_that_failed_later(eager, planted):
    planted.values[END]["v3"] = Raised("RuntimeError", "gather: index out of range")
    assert found(eager, planted) == "late error"


# ---- Rounding

LONG = Program(
    (
        "v1 = normal((2000,), 1)",
        "v2 = (v1 * 1e4).sum() - v1.sum() * 1e4",
        "v3 = torch.floor(v1.sum() / v1.sum())",
        "v4 = v1.exp()",
    )
)


@pytest.mark.parametrize("seed", range(30, 34))
def test_other_rounding_is_no_difference(seed):
    eager = execute(LONG, EAGER)
    with Noise(seed):
        other = execute(LONG, EAGER)
    end = (0, 4)
    assert not torch.equal(eager.values[end]["v2"], other.values[end]["v2"])
    assert oracle.compare(LONG, eager, other) is None


def test_what_cancels_may_differ_and_what_does_not_may_not():
    eager = execute(LONG, EAGER)
    for path, excused in (("v2", True), ("v4", False)):
        other = copy.deepcopy(eager)
        value = other.values[0, 4][path]
        value += 1e-2 if excused else value * 1e-5
        assert (oracle.compare(LONG, eager, other) is None) == excused


def test_nearer_to_the_exact_result_than_eager_is():
    exact = torch.tensor([1.0], dtype=torch.float64)
    eager, mine = torch.tensor([1.001]), torch.tensor([0.9995])
    assert rounding.unexplained(mine, eager, [], None).all()
    assert not rounding.unexplained(mine, eager, [], exact).any()
    assert rounding.unexplained(torch.tensor([0.998]), eager, [], exact).all()


def test_what_is_off_or_large_elsewhere_excuses_nothing():
    exact = torch.tensor([1e4, 1.0], dtype=torch.float64)
    eager, mine = torch.tensor([1.001e4, 1.0]), torch.tensor([1e4, 1.0001])
    for runs in ([], [eager.clone()]):
        assert rounding.unexplained(mine, eager, runs, exact).tolist() == [False, True]


def test_an_integer_is_one_that_noise_gives():
    eager, mine = torch.tensor([3, 3]), torch.tensor([4, 4])
    left = rounding.unexplained(mine, eager, [torch.tensor([4, 3])], None)
    assert left.tolist() == [False, True]


def test_an_error_that_rounding_decides():
    for seed in range(50):  # a sum of which this processor makes no more than 1
        program = Program(
            (
                f"v1 = torch.softmax(normal((9,), {seed}), 0).sum() > 1",
                "v2 = torch.ones(1).to(dev).index_select(0, v1.to(I64).reshape(1))",
                "r3 = v2.sum().item()",
            )
        )
        eager = execute(program, EAGER)
        if not eager.errors:
            break
    assert not eager.errors
    for kind, statement, is_open in (
        ("IndexError", 1, True),
        ("RuntimeError", 1, False),
        ("IndexError", 0, False),
    ):
        text = f"index_select (<statement {statement}>:2): index out of range"
        late = Raised(kind, text, late=True)
        read_at_the_end, read_by_a_statement = copy.deepcopy(eager), copy.deepcopy(eager)
        read_at_the_end.values[0, 3]["v2"] = late
        read_by_a_statement.errors[0, 2] = late
        del read_by_a_statement.values[0, 3]["r3"]
        for other in (read_at_the_end, read_by_a_statement):
            assert (oracle.compare(program, eager, other) is None) == is_open


def test_noise_moves_what_is_computed_and_nothing_else():
    x = torch.randn(5, 10)
    tripled = x * 3
    with Noise(0):
        assert torch.equal(x.t().clone().flip(0).to(torch.float64), x.double().t().flip(0))
        moved = x * 3
    assert not torch.equal(moved, tripled)
    torch.testing.assert_close(moved, tripled, rtol=1e-6, atol=0)


def test_bits_of_a_nan_may_be_any():
    nan = torch.tensor([float("nan"), -float("nan"), 1.0, 2.0], dtype=torch.bfloat16)
    other = torch.tensor([-float("nan"), -float("nan"), 1.0, 3.0], dtype=torch.bfloat16)
    for seen_as, expected in (
        (torch.int16, [True, True, True, False]),
        (torch.float32, [True, False]),
        (torch.complex64, [[True, False]]),
        (torch.uint8, [True] * 6 + [False] * 2),
    ):
        assert oracle.of_nan(nan.view(seen_as), other.view(seen_as)).tolist() == expected


# ---- Programs' text


def test_what_a_statement_binds_and_calls():
    assert assigned("v1, v2 = torch.max(v3, 0)") == ["v1", "v2"]
    assert assigned("with torch.no_grad():\n    v5 = v1 * 2") == ["v5"]
    assert operators("v1 = torch.add(v2.view(3), F.relu(v3))") == ["add", "view", "relu"]


def test_a_number_that_rounding_makes_nan():
    """Where one of many runs is nan, the others still say what its digits are."""
    eager, other = torch.tensor([1.0, 1.0]), torch.tensor([1.0, 1 + 2**-21])
    nan = torch.tensor([1.0, torch.nan])
    assert not rounding.unexplained(other, eager, [nan, nan, eager], None).any()
    assert rounding.unexplained(other, eager, [nan, eager, eager], None).tolist() == [False, True]
    assert rounding.unexplained(other, eager, [], None).any()
    assert rounding.unexplained(other * 1.001, eager, [nan, nan], None).all()
    assert rounding.unexplained(nan, eager, [eager], None).any()
