"""The memory that models and attention need at most (`tools/bench memory`)."""
