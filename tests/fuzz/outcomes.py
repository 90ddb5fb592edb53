"""What a run of programs found: failures in groups of one fault each, coverage, speed, memory."""

import json
import os
import sys
import time
from pathlib import Path

from fuzz.execute import execute
from fuzz.generate import generate
from fuzz.program import load
from fuzz.scope import EAGER, EXACT
from fuzz.steering import Coverage

# What a process may grow by after its first 250 programs: tensors not at all, but for what caches
# hold; else by kernels, which stay, and by the samples and traces that it meets. On a GPU cuBLASLt
# keeps memory to work in for each stream, the driver some for each kernel that is loaded, and each
# of torch's libraries much once it is needed (cuSOLVER, cuFFT, cuDNN).
LIVE = {"cpu": 2**17, "cuda": 2**27}
KERNEL = {"cpu": 16 * 2**10, "cuda": 384 * 2**10}
RESIDENT = 16 * 2**20  # in 250 programs
SLACK = {"cpu": 2**26, "cuda": 2**28}


class Outcomes:
    def __init__(self, options, setting: str, all_: int):
        self.options, self.setting, self.all = options, setting, all_
        self.done, self.start = 0, time.monotonic()
        self.groups: dict[str, list[dict]] = {}
        self.faults: dict[str, list[dict]] = {}  # groups after shrinking
        self.coverage = Coverage()
        self.memory: dict[int, dict] = {}  # the first look at each process
        self.grown = ""
        self.crashed_eager: list[int] = []
        self.excused: dict[str, list[int]] = {}  # by a line of differences.txt

    def add(self, k: int, result: dict):
        self.done += 1
        facts = result.get("facts", {})
        self.coverage.add(facts.get("pairs", []))
        for reason in facts.get("excuses", []):
            self.excused.setdefault(reason, []).append(k)
        if "memory" in facts:
            self.look(k, facts["memory"])
        if result["outcome"] != "passed":
            self.fail(k, result, facts)
        if self.done % 50 == 0 or self.done == self.all:
            failures = sum(map(len, self.groups.values()))
            rate = self.done / (time.monotonic() - self.start)
            line = f"{self.done}/{self.all} programs, {rate:.1f}/s"
            line += f", {failures} failed in {len(self.groups)} groups"
            print(line, end="\r" if sys.stdout.isatty() else "\n", flush=True)

    def look(self, k: int, memory: dict):
        """What a process has, beside what it had after its first programs: is that too much?"""
        first = self.memory.setdefault(memory["process"], memory)
        live, resident, kernels = (memory[x] - first[x] for x in ("live", "resident", "kernels"))
        looks = memory["programs"] / first["programs"] - 1
        grown = f"{live:+} bytes live, {resident / 2**20:+.0f} MiB resident"
        grown += f", {kernels:+} kernels"
        self.grown = f"{grown} after {memory['programs']} programs of a process"
        most = RESIDENT * looks + KERNEL[self.options.device] * kernels + SLACK[self.options.device]
        if live > LIVE[self.options.device] or resident > most:
            print(f"\nprogram {k}: memory: {self.grown}")
            self.groups.setdefault("memory", []).append({"k": k, "message": self.grown})

    def fail(self, k: int, result: dict, facts: dict):
        signature = facts.get("signature", result["outcome"])
        file = Path(self.options.folder) / f"{self.options.seed}-{k}.json"
        if signature.startswith("fuzzer"):
            self.groups.setdefault(signature, []).append({"k": k, "message": result["message"]})
            print(f"\nprogram {k}: {result['message']}")
            return
        if "program" in facts:
            load(json.dumps(facts["program"])).save(file)
        elif not self.made_anew(k, file):
            self.crashed_eager.append(k)
            return
        failure = {"k": k, "file": file, "message": result["message"], "signature": signature}
        if signature not in self.groups:
            print(f"\nprogram {k}: {signature}: {result['message'][:400]}", flush=True)
        self.groups.setdefault(signature, []).append(failure)

    def made_anew(self, k: int, file: Path) -> bool:
        """A program from its number, in a fork: what ended a worker may have been eager."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                alone = self.options.threads == 1
                number = k * self.options.threads
                program, _ = generate(
                    self.options.seed, number, self.options.steps, alone, self.options.about
                )
                execute(program, EAGER)
                execute(program, EXACT)
                program.save(file)
                status = 0
            finally:
                os._exit(status)
        return os.waitpid(child, 0)[1] == 0

    def reduce(self, reduced, few: int):
        """Shrinks a few of each group, and groups anew by what they came down to."""
        chosen = [f for failures in self.groups.values() for f in failures[:few] if "file" in f]
        for failure, found in zip(chosen, reduced([f["file"] for f in chosen]), strict=False):
            key = f"{failure['signature']}, not alone"
            failure.update(found)
            if failure["reproduced"]:
                failure["file"].with_suffix(".py").write_text(failure["script"])
                key = failure["signature"] + "".join(f", {v}" for v in failure["vanishes"])
            self.faults.setdefault(key, []).append(failure)

    def report(self) -> str:
        lines = [f"== {self.setting}"]
        for key, failures in sorted(self.faults.items()):
            smallest = min(failures, key=lambda f: len(f.get("script", f["message"] + " " * 9999)))
            lines += ["", f"-- {key}: programs {', '.join(str(f['k']) for f in failures)}"]
            lines += [smallest.get("script") or smallest["message"]]
        for signature, failures in self.groups.items() if not self.faults else ():
            lines.append(f"{signature}: programs {', '.join(str(f['k']) for f in failures)}")
        for reason, programs in self.excused.items():
            lines.append(f"excused: programs {str(programs)[1:-1]}: {reason}")
        if self.grown:
            lines.append(f"memory: {self.grown}")
        if self.crashed_eager:
            lines.append(f"ended eager itself: programs {str(self.crashed_eager)[1:-1]}")
        failures = sum(map(len, self.groups.values()))
        seconds = time.monotonic() - self.start
        lines.append(f"pairs: {self.coverage}")
        lines.append(
            f"{self.done} programs, {failures} failed in {len(self.groups)} groups, {seconds:.0f} s"
        )
        return "\n".join(lines)
