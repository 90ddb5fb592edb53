"""Inference engines beside torch, each in a process and an environment of its own."""
