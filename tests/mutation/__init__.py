"""A test of the tests: plants faults in Lazuli's own sources, and counts what catches them.

`faults.toml` lists them. `plant.py` rewrites a copy of the tree so that a number in the environment
turns one of them on, `tree.py` makes and builds that copy, `suites.py` says what runs and in which
order, `trial.py` runs it under a limit, `results.py` keeps and prints what came of it.
`tools/mutate --help`.
"""
