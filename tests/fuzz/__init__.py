"""Whole programs against eager: what suites of single operators cannot see.

A fault of a lazy compiler lives between operators: a buffer taken over too early, an order of
writes, a trace reused for what it was not made for. So this makes random programs (`generate.py`,
`steps/`), runs each on eager and on lazuli (`execute.py`), compares all that a user can see
(`oracle.py`), and cuts what differs down to a few lines (`shrink.py`). `tools/fuzz --help`.
"""
