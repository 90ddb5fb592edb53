"""A fixed selection of TorchCTS on the device; `tools/conformance torchcts` runs all of it."""

import contextlib

import pytest
from cts_runs import name_of, start
from cts_suite import SELECTION
from differences import listed, must_differ
from supervisor import run_all

NODES = SELECTION.read_text().split()
SECONDS = 120  # for one node


class Outcomes:
    """Runs nodes in their order, as far as they are asked for: a worker collects but once."""

    def __init__(self, log):
        self.found = {}
        self.rest = iter(run_all(lambda left: start("lazuli", left, log), NODES, SECONDS))

    def of(self, node: str) -> dict:
        while node not in self.found:
            name, outcome = next(self.rest)
            self.found[name] = outcome
        return self.found[node]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    with open(tmp_path_factory.mktemp("torchcts") / "log", "w") as log:
        outcomes = Outcomes(log)
        with contextlib.closing(outcomes.rest):
            yield outcomes


def selection():
    names = {name_of(node): node for node in NODES}
    reasons = listed("torchcts", names, whole=False)
    for name, node in names.items():
        reason = reasons.get(name)
        marks = [pytest.mark.xfail(reason=reason, strict=must_differ(reason))] if reason else []
        yield pytest.param(node, marks=marks, id=name)


@pytest.mark.parametrize("node", selection())
def test_node(node, outcomes):
    found = outcomes.of(node)
    assert found["outcome"] == "passed", found["message"]
