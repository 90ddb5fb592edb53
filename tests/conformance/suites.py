"""The suites: modules with `cases()`, by name, and `run(case, most)` for a case's first samples."""

import importlib

SUITES = {
    "opinfo": "op_cases",
    "modules": "module_cases",
    "optimizers": "optimizer_cases",
    "derivatives": "derivative_cases",
    "models": "model_cases",
}


def suite(name: str):
    return importlib.import_module(SUITES[name])
