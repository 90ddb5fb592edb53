"""The suites: modules with `cases()`, by name, and `run(case, most)` for a case's first samples."""

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # what all tests share

SUITES = {
    "opinfo": "op_cases",
    "modules": "module_cases",
    "optimizers": "optimizer_cases",
    "derivatives": "derivative_cases",
    "models": "model_cases",
}


def suite(name: str):
    return importlib.import_module(SUITES[name])
