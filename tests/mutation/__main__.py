"""Plants faults in a copy of the sources and counts what catches them."""

import argparse
import fcntl
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutation import faults as listed
from mutation import suites, tree, trial
from mutation.faults import Fault
from mutation.results import Results, table
from mutation.suites import Part
from mutation.tree import Tree

MUTANTS = tree.ROOT / "build" / "mutants"
# A part may take so much longer than it did without a fault, and so many seconds more.
SLOWER, GRACE = 4, 60


def parsed():
    parser = argparse.ArgumentParser(prog="tools/mutate", description=__doc__)
    parser.add_argument("--only", type=int, action="append", help="the fault of this number")
    parser.add_argument("--theme", choices=tuple(suites.THEMES), help="faults of this theme")
    parser.add_argument("--list", action="store_true", help="print the faults and stop")
    parser.add_argument("--check", action="store_true", help="that all is found and compiles")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time; 1")
    parser.add_argument("--suites", default=",".join(suites.NAMES), help="of %(default)s")
    parser.add_argument("--likely", action="store_true", help="only the tests of each theme")
    parser.add_argument("--rebuild", action="store_true", help="those in tables, a build for each")
    parser.add_argument("--again", action="store_true", help="those that nothing caught, once more")
    parser.add_argument("--folder", type=Path, default=tree.ROOT / "build" / "mutation")
    options = parser.parse_args()
    options.suites = tuple(options.suites.split(","))
    if unknown := set(options.suites) - set(suites.NAMES):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    return options


def is_chosen(fault: Fault, options) -> bool:
    if options.only:
        return fault.number in options.only
    compiled_as_asked = options.list or fault.rebuild == options.rebuild
    return compiled_as_asked and options.theme in (None, fault.theme)


class Campaign:
    def __init__(self, options):
        self.options = options
        self.results = Results(options.folder, tree.digest_of_sources())
        self.usual = threading.Lock()

    def limit(self, built: Tree, part: Part) -> float:
        """Of a part's time, which without a fault it passes in. Once for each part."""
        with self.usual:
            if part.name not in self.results.usual:
                verdict = trial.run(built, part, None, None)
                if not verdict.passed:
                    sys.exit(f"{part.name} fails without a fault: {verdict.how}")
                self.results.note_usual(part, verdict.seconds)
        return SLOWER * self.results.usual[part.name] + GRACE

    def judge(self, built: Tree, fault: Fault) -> None:
        outcome = self.results.of(fault)
        options = self.options
        for part in suites.parts_of(fault, options.suites, options.folder, options.likely):
            if outcome.caught:
                break
            if part.name in outcome.passed:
                continue
            limit = self.limit(built, part)
            verdict = trial.run(built, part, None if fault.rebuild else fault.code, limit)
            self.results.note(fault, part, verdict)
        what = f"{outcome.caught}: {outcome.how}" if outcome.caught else "NOT CAUGHT"
        print(f"{fault}\n    {what}", flush=True)


def main() -> int:
    options = parsed()
    every = listed.load()
    chosen = [fault for fault in every if is_chosen(fault, options)]
    if options.list:
        print(*chosen, sep="\n")
        return 0
    if wrong := listed.misplaced(every, tree.ROOT):
        print(*wrong, sep="\n")
        return 1
    os.nice(5)
    MUTANTS.mkdir(parents=True, exist_ok=True)
    alone_here = (MUTANTS / "lock").open("w")
    try:
        fcntl.flock(alone_here, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another tools/mutate is at work in this checkout")
        return 1
    schemata = Tree(MUTANTS / "all", [fault for fault in every if not fault.rebuild])
    alone = [fault for fault in chosen if fault.rebuild]
    try:
        if options.check or len(alone) < len(chosen):
            schemata.write()
            schemata.build(jobs=2)
        if options.check:
            print(
                f"{len(every)} faults, all in place; the tree with {len(schemata.faults)} compiles"
            )
            return 0
        campaign = Campaign(options)
        if options.again:
            for fault in chosen:
                if options.only or not campaign.results.of(fault).caught:
                    campaign.results.forget(fault)
        at_once = [fault for fault in chosen if not fault.rebuild]
        with ThreadPoolExecutor(options.jobs) as pool:
            try:
                list(pool.map(lambda fault: campaign.judge(schemata, fault), at_once))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        for fault in alone:
            built = Tree(MUTANTS / "alone", [fault], alone=True)
            built.write()
            built.build(jobs=2)
            campaign.judge(built, fault)
    except tree.BuildFailed as error:
        print(error)
        return 1
    text = table(every, campaign.results)
    (options.folder / "table.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
