"""`pip install .`: the wheel is complete, and works away from the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import torch, torch_lazuli
print(torch_lazuli.__file__)
print((torch.ones(3).to("lazuli") + 1).tolist())
print(len({l.split()[-1] for l in open("/proc/self/maps") if "libgomp" in l}))
"""


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    # The compiler under the name that the build calls it by: ccache tells names apart.
    environment = os.environ | {"CXX": os.environ.get("CXX", "c++")}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(folder), ".")
    (path,) = folder.glob("*.whl")
    return path


# The compiler's work is in ccache after tools/setup; without ccache this compiles all again.
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_wheel_is_libraries_and_a_python_package(wheel):
    assert wheel.name.startswith("torch_lazuli-")
    assert "-py3-none-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = (name for name in names if name.endswith("/entry_points.txt"))
        assert "lazuli = torch_lazuli:_autoload" in archive.read(entry_points).decode()
    minor = ".".join(torch.__version__.split(".")[:2])
    parts = ("core", f"loader_{minor}", f"torch_{minor}")
    libraries = [name for name in names if name.endswith(".so")]
    assert sorted(libraries) == [f"torch_lazuli/liblazuli_{part}.so" for part in parts]
    strangers = [n for n in names if not n.startswith(("torch_lazuli/", "torch_lazuli-"))]
    assert strangers == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_installed_wheel_adds(wheel, tmp_path):
    target = tmp_path / "site"
    pip("install", "--no-deps", "--target", str(target), str(wheel))
    names = ("LAZULI_HOME", "LAZULI_LIBRARY", "LAZULI_PRESET")
    environment = {key: value for key, value in os.environ.items() if key not in names}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{target}/torch_lazuli/__init__.py",
        "[2.0, 2.0, 2.0]",
        "1",
    ]
