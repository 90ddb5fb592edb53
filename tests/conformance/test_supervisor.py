"""A crash or a hang is the outcome of its case, and the cases after it run."""

import sys

import pytest
import supervisor

WORKER = """
import json, os, sys, time
print("ready", flush=True)
for line in sys.stdin:
    if line.strip() == "crash":
        os.abort()
    if line.strip() == "hang":
        time.sleep(100)
    print(json.dumps({"outcome": "passed", "message": "", "seconds": 0}), flush=True)
"""


def test_the_rest_goes_on(tmp_path):
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    names = ["a", "crash", "b", "hang", "c"]
    left = []
    with open(tmp_path / "log", "w") as log:

        def start(names):
            left.append(list(names))
            return supervisor.Worker([sys.executable, worker], log)

        found = dict(supervisor.run_all(start, names, 2))
    assert left == [names, names[2:], names[4:]]
    assert [found[name]["outcome"] for name in names] == [
        "passed",
        "crashed",
        "passed",
        "hung",
        "passed",
    ]


def test_workers_side_by_side(tmp_path):
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    names = ["a", "crash", "b", "c", "d", "e", "f"]
    with open(tmp_path / "log", "w") as log:
        start = lambda _: supervisor.Worker([sys.executable, worker], log)  # noqa: E731
        found = dict(supervisor.run_side_by_side(start, [names[n::3] for n in range(3)], 20))
    assert set(found) == set(names)
    assert [n for n in names if found[n]["outcome"] != "passed"] == ["crash"]


def test_a_worker_that_cannot_start_is_an_error(tmp_path):
    def start(names):
        raise RuntimeError("no worker")

    with pytest.raises(RuntimeError, match="no worker"):
        list(supervisor.run_side_by_side(start, [["a"], ["b"]], 20))
