"""Benchmarks: eager, torch.compile and lazuli side by side, in one run."""
