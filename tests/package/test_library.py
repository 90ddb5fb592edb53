"""Finding and loading the plugin: what a user sees when it is missing or does not fit."""

import os
import subprocess
import sys

import pytest
from torch_lazuli import library
from torch_lazuli.library import LibraryError


def import_torch(**environment: str) -> subprocess.CompletedProcess:
    code = "import torch; print('has', hasattr(torch, 'lazuli'), torch.ones(1).item())"
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )


def test_a_missing_library_warns_once_and_torch_works(tmp_path):
    done = import_torch(LAZULI_LIBRARY=str(tmp_path / "none.so"))
    assert done.stdout == "has False 1.0\n"
    assert done.stderr.count("device 'lazuli' is not available") == 1
    assert f"{tmp_path}/none.so does not exist; run tools/setup" in done.stderr


def test_a_broken_library_warns_and_torch_works(tmp_path):
    broken = tmp_path / "liblazuli.so"
    broken.write_bytes(b"not a library")
    done = import_torch(LAZULI_LIBRARY=str(broken))
    assert done.stdout == "has False 1.0\n"
    assert f"{broken} does not load" in done.stderr


def test_autoload_can_be_turned_off():
    done = import_torch(TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (done.stdout, done.stderr) == ("has False 1.0\n", "")


@pytest.mark.parametrize(
    ("built", "running", "fits"),
    [
        ("2.11.0", "2.11.0+cu130", True),
        ("2.11.0+cu130", "2.11.1", True),
        ("2.11.0", "2.12.0", False),
        ("2.11.0", "2.1.1", False),
    ],
)
def test_the_torch_version_must_match(tmp_path, built, running, fits):
    path = tmp_path / "liblazuli.so"
    path.with_suffix(".json").write_text(f'{{"torch": "{built}"}}')
    if fits:
        library.check_version(path, running)
    else:
        with pytest.raises(LibraryError, match=f"built for torch {built}, and this is"):
            library.check_version(path, running)
