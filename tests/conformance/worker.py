"""Runs cases one by one as it is told, in a process that a crash may end.

Reads a case a line (see settings.tagged), answers with a line of JSON. What operators print goes to
stderr.
"""

import json
import os
import sys
import time

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

import torch  # noqa: E402
from settings import in_process, setting_of  # noqa: E402
from suites import suite  # noqa: E402


def answer(cases, line: str, most) -> dict:
    start = time.perf_counter()
    facts = None
    setting, name = setting_of(line, [""])
    try:
        with in_process(setting):
            facts = cases.run(cases.cases()[name], most)
        outcome, message = "passed", ""
    except Exception as error:  # a case's failure of any kind is its outcome
        outcome, message = "failed", f"{type(error).__name__}: {error}"
    found = {"outcome": outcome, "message": message, "seconds": time.perf_counter() - start}
    return {**found, "facts": facts} if facts else found


def main():
    cases = suite(sys.argv[1])
    most = None if sys.argv[2] == "all" else int(sys.argv[2])
    torch.set_num_threads(1)
    torch.lazuli.synchronize()
    print("ready", file=answers)
    for line in sys.stdin:
        print(json.dumps(answer(cases, line.strip(), most)), file=answers)


if __name__ == "__main__":
    main()
