"""Runs a program that names `cuda`, `cpu` or no device on lazuli (README.md)."""

from torch_lazuli.takeover.request import VARIABLE, Request, RequestError, asked

__all__ = ["VARIABLE", "Request", "RequestError", "asked"]
