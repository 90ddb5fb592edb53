"""How fast library calls are, and whether the fastest is chosen."""
