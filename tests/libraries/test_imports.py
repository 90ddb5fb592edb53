"""When a library is taught the device, and that `import torch` pays next to nothing for it."""

import os
import runpy
import subprocess
import sys
import types
import warnings

import pytest
import torch
from torch_lazuli import libraries
from torch_lazuli.libraries import naming
from torch_lazuli.libraries.imports import Imports, replace


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A library of two modules, and the finder that watches for them."""
    folder = tmp_path / "alibrary"
    folder.mkdir()
    (folder / "__init__.py").write_text("from alibrary.devices import choose\n")
    (folder / "devices.py").write_text("def choose(x=1):\n    return 'cpu', x\n")
    monkeypatch.syspath_prepend(tmp_path)
    ours = types.ModuleType("torch_lazuli.libraries.alibrary")
    monkeypatch.setitem(sys.modules, ours.__name__, ours)
    watcher = Imports({"alibrary.devices": ("alibrary", "teach")})

    def teach(module):
        replace(module, "choose")(lambda original, *x: ("lazuli", original(*x)))

    ours.teach = teach
    yield watcher, ours
    if watcher in sys.meta_path:
        sys.meta_path.remove(watcher)
    for name in [name for name in sys.modules if name.split(".")[0] == "alibrary"]:
        del sys.modules[name]


def test_a_library_is_taught_before_others_take_its_functions(library):
    library[0].watch()
    import alibrary

    assert alibrary.choose(3) == ("lazuli", ("cpu", 3))
    assert alibrary.devices.__spec__.loader.exec_module.__name__ == "exec_module"
    assert "exec_module" not in vars(alibrary.devices.__spec__.loader)


def test_a_library_that_was_imported_before(library):
    import alibrary.devices

    library[0].watch()
    assert alibrary.devices.choose(3) == ("lazuli", ("cpu", 3))


def test_a_library_that_is_being_imported(library, tmp_path):
    """As one is that imports torch in the middle of its own code."""
    watcher, _ = library
    sys.watcher = watcher
    text = "import sys\nsys.watcher.watch()\ndef choose(x=1):\n    return 'cpu', x\n"
    (tmp_path / "alibrary" / "devices.py").write_text(text)
    try:
        import alibrary.devices
    finally:
        del sys.watcher
    import wave  # noqa: F401  any import that comes after

    watcher.device_is_used()
    assert alibrary.devices.choose(3) == ("lazuli", ("cpu", 3))


def test_a_module_that_is_run_as_a_program(library, tmp_path, monkeypatch, capsys):
    (tmp_path / "alibrary" / "__init__.py").write_text("")
    with (tmp_path / "alibrary" / "devices.py").open("a") as file:
        file.write("def main():\n    print(choose())\nif __name__ == '__main__':\n    main()\n")
    watcher, _ = library
    watcher._programs = {"alibrary.devices": "main"}
    watcher.watch()
    import alibrary

    runpy.run_module("alibrary.devices", run_name="__main__", alter_sys=True)
    assert capsys.readouterr().out == "('lazuli', ('cpu', 1))\n"
    assert alibrary.devices.choose(3) == ("lazuli", ("cpu", 3))


def test_a_version_that_is_not_known_is_warned_of_once_the_device_is_used(library):
    watcher, ours = library
    ours.teach = lambda module: module.there_is_none
    watcher.watch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        import alibrary
    assert alibrary.choose(3) == ("cpu", 3)
    with pytest.warns(UserWarning, match="does not know this version of alibrary.devices"):
        watcher.device_is_used()


class UnknownError(Exception):
    """A library's own."""


@pytest.mark.parametrize("error", [KeyError, ValueError, UnknownError])
def test_whatever_is_raised_does_not_break_an_import(library, error):
    watcher, ours = library

    def teach(module):
        raise error("not there")

    ours.teach = teach
    watcher.watch()
    import alibrary

    assert alibrary.choose(3) == ("cpu", 3)
    with pytest.warns(UserWarning, match=f"version of alibrary.devices: {error.__name__}: "):
        watcher.device_is_used()


def test_functions_keep_their_names():
    class Thing:
        @staticmethod
        def choose(x):
            "What it does."
            return x

    replace(Thing, "choose")(lambda original, x: original(x) + 1)
    assert Thing.choose(1) == Thing().choose(1) == 2
    assert Thing.choose.__doc__ == "What it does."
    with pytest.raises(AttributeError):
        replace(Thing, "other")(lambda original: original)


def test_every_module_that_is_watched_for_has_its_function():
    import importlib

    for name, (file, function) in libraries.TAUGHT.items():
        ours = importlib.import_module(f"torch_lazuli.libraries.{file}")
        assert callable(getattr(ours, function)), name


def test_import_torch_brings_nothing_but_the_finder():
    code = "import sys, torch; print(sorted(m for m in sys.modules if 'lazuli.libraries' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(["torch_lazuli.libraries", "torch_lazuli.libraries.imports"])


@pytest.mark.parametrize(
    "first", ["accelerate.state", "lightning.fabric.accelerators", "transformers.training_args"]
)
def test_a_library_that_brings_torch(first):
    """Torch is imported in the middle of it."""
    pytest.importorskip(first.split(".")[0])
    code = f"import {first}, torch_lazuli.libraries as l; l.report_unknown_versions()\n" + (
        "import accelerate; print(accelerate.PartialState().device)"
        if "lightning" not in first
        else "import lightning; print(lightning.Fabric().device)"
    )
    pytest.importorskip("accelerate")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"ACCELERATE_TORCH_DEVICE": "lazuli"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith("lazuli")
    assert "does not know this version" not in done.stderr


def test_what_names_the_device(name_device, monkeypatch):
    monkeypatch.delenv("ACCELERATE_TORCH_DEVICE", raising=False)
    monkeypatch.delenv("LAZULI_TAKE_OVER", raising=False)
    assert libraries.named() is None
    torch.ones(1, device="lazuli")
    assert libraries.named() is None
    with torch.device("lazuli"):
        assert libraries.named() == "torch's default device"
    with torch.device("meta"):
        assert libraries.named() is None
    name_device("environment", "lazuli:0")
    assert libraries.named() == "ACCELERATE_TORCH_DEVICE"
    name_device("take over")
    assert libraries.named() == "LAZULI_TAKE_OVER"
    monkeypatch.setenv("LAZULI_TAKE_OVER", "0")
    name_device("environment", "cpu")
    assert libraries.named() is None
    with naming.choosing("a reason"):
        assert libraries.named() == "a reason"
    assert libraries.named() is None
