"""The tour that tools/check_wheel.py takes with the installed wheel, taken here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("first", ["", "fork first"])
def test_the_tour(first):
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("tour.py")],
        env=os.environ | {"LAZULI_TOUR": first, "LAZULI_UNPLANNED": "auto"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "ok inspection"
