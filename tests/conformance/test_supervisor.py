"""A crash or a hang is the outcome of its case, and the cases after it run."""

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


def test_the_rest_goes_on(tmp_path, monkeypatch):
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    monkeypatch.setattr(supervisor, "WORKER", worker)
    names = ["a", "crash", "b", "hang", "c"]
    with open(tmp_path / "log", "w") as log:
        found = dict(supervisor.run_all("any", names, "all", 2, log))
    assert [found[name]["outcome"] for name in names] == [
        "passed",
        "crashed",
        "passed",
        "hung",
        "passed",
    ]
