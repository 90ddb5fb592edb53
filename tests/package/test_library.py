"""Finding and loading the plugin: what a user sees when it is missing or does not fit."""

import os
import shutil
import subprocess
import sys

import pytest
import torch
from torch_lazuli import library
from torch_lazuli.library import LibraryError

HERE = library.find(torch.__version__)


def run(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def import_torch(**environment: str) -> subprocess.CompletedProcess:
    code = "import torch; print('has', hasattr(torch, 'lazuli'), torch.ones(1).item())"
    done = run(code, **environment)
    assert done.returncode == 0, done.stderr
    return done


def test_a_missing_library_warns_once_and_torch_works(tmp_path):
    done = import_torch(LAZULI_LIBRARY=str(tmp_path / "none.so"))
    assert done.stdout == "has False 1.0\n"
    assert done.stderr.count("device 'lazuli' is not available") == 1
    assert f"{tmp_path}/none.so does not exist" in done.stderr


def test_a_broken_loader_warns_and_torch_works(tmp_path):
    broken = tmp_path / HERE.name
    for path in (broken, library.loader_of(HERE)):
        (tmp_path / path.name).write_bytes(b"not a library")
    done = import_torch(LAZULI_LIBRARY=str(broken))
    assert done.stdout == "has False 1.0\n"
    assert "device 'lazuli' is not available" in done.stderr
    assert "does not load" in done.stderr


def test_a_broken_plugin_is_an_error_of_each_use_and_torch_works(tmp_path):
    shutil.copy(library.loader_of(HERE), tmp_path)
    broken = tmp_path / HERE.name
    broken.write_bytes(b"not a library")
    code = """
import torch
for use in (lambda: torch.ones(1, device='lazuli'), lambda: torch.Generator(device='lazuli')):
    try:
        use()
    except RuntimeError as error:
        print(error)
print(torch.ones(1).item())
"""
    done = run(code, LAZULI_LIBRARY=str(broken))
    assert done.returncode == 0, done.stderr
    *errors, last = done.stdout.splitlines()
    assert last == "1.0"
    assert [f"{broken} does not load" in error for error in errors] == [True, True]


def test_a_setting_that_is_wrong_is_an_error_of_each_use():
    code = """
import torch
for _ in range(2):
    try:
        torch.ones(1, device='lazuli')
    except RuntimeError as error:
        print(error)
"""
    done = run(code, LAZULI_UNPLANNED="sometimes")
    assert done.returncode == 0, done.stderr
    expected = "lazuli: setting 'unplanned' takes auto, never or always, not sometimes"
    assert done.stdout.splitlines() == [expected] * 2


def test_autoload_can_be_turned_off():
    done = import_torch(TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (done.stdout, done.stderr) == ("has False 1.0\n", "")


def test_another_plugin_that_was_there_first():
    code = """
import torch
torch.utils.rename_privateuse1_backend("npu")
import torch_lazuli
torch_lazuli._autoload()
print(hasattr(torch, "lazuli"))
"""
    done = run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stdout == "False\n"
    assert "room for one device from outside, and 'npu' is there already" in done.stderr


@pytest.mark.parametrize(
    ("built", "running", "fits"),
    [
        ("2.11", "2.11.0+cu130", True),
        ("2.11", "2.11.1", True),
        ("2.11", "2.12.0", False),
        ("2.11", "2.1.1", False),
    ],
)
def test_a_library_that_is_named_must_fit(tmp_path, monkeypatch, built, running, fits):
    path = tmp_path / f"liblazuli_torch_{built}.so"
    path.touch()
    monkeypatch.setenv("LAZULI_LIBRARY", str(path))
    if fits:
        assert library.find(running) == path
    else:
        with pytest.raises(LibraryError, match=rf"built for torch {built}, and this is torch"):
            library.find(running)


def test_the_library_of_the_running_version_is_taken(tmp_path, monkeypatch):
    monkeypatch.delenv("LAZULI_LIBRARY", raising=False)
    monkeypatch.setattr(library, "folders", lambda: [tmp_path])
    for version in ("2.9", "2.11", "2.15"):
        (tmp_path / f"liblazuli_torch_{version}.so").touch()
    assert library.find("2.15.0+cu132").name == "liblazuli_torch_2.15.so"
    with pytest.raises(LibraryError, match=r"torch 2\.12\.1, .* for torch 2\.9, 2\.11, 2\.15 only"):
        library.find("2.12.1")
