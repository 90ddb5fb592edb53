"""A small sample of the model suite, and the same under each setting; `tools/conformance models`
runs all models, and with `--setting all` the sample under all settings."""

import contextlib

import pytest
from model_suite import start
from settings import PLAIN, QUICK, SAMPLE, SETTINGS
from supervisor import run_all

SECONDS = 120  # for one model


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Runs a setting's models in a process of their own, when the first of them is asked for."""
    found = {}

    def of(setting: str, name: str) -> dict:
        if setting not in found:
            names = SAMPLE if setting == PLAIN else QUICK
            with open(tmp_path_factory.mktemp("models") / "log", "w") as log:
                runs = run_all(lambda left: start([setting], log), names, SECONDS)
                with contextlib.closing(runs):
                    found[setting] = dict(runs)
        return found[setting][name]

    return of


@pytest.mark.parametrize("name", SAMPLE)
def test_a_step_is_eagers(name, outcomes):
    found = outcomes(PLAIN, name)
    assert found["outcome"] == "passed", found["message"]


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting != PLAIN])
def test_a_step_is_eagers_under_a_setting(setting, name, outcomes):
    found = outcomes(setting, name)
    assert found["outcome"] == "passed", found["message"]
