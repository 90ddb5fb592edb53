"""Finds liblazuli.so and loads it into torch."""

import ctypes
import json
import os
from importlib import metadata
from pathlib import Path

NAME = "liblazuli.so"


class LibraryError(RuntimeError):
    """The plugin is missing, or does not fit the torch that is running."""


def candidates() -> list[Path]:
    """Where the library may be, the first that exists is taken.

    LAZULI_LIBRARY names it outright; a wheel has it beside this file; a checkout has it in the
    build folder of LAZULI_PRESET (release).
    """
    if named := os.environ.get("LAZULI_LIBRARY"):
        return [Path(named)]
    here = Path(__file__).resolve().parent
    checkout = here.parent.parent.parent
    preset = os.environ.get("LAZULI_PRESET", "release")
    return [here / NAME, checkout / "build" / preset / NAME]


def find() -> Path:
    """The library's path.

    Raises LibraryError that says where it was looked for.
    """
    paths = candidates()
    for path in paths:
        if path.exists():
            return path
    looked = " or ".join(str(path) for path in paths)
    raise LibraryError(f"{looked} does not exist; run tools/setup to build it")


def check_version(path: Path, running: str) -> None:
    """Compares the torch that the library was built for with the `running` one.

    The library uses the layouts of torch's C++ classes, which change from one minor version to
    the next: loading it into another would crash. Raises LibraryError.
    """
    facts = path.with_suffix(".json")
    if not facts.exists():
        return
    built = json.loads(facts.read_text())["torch"]
    if built.split("+")[0].split(".")[:2] != running.split("+")[0].split(".")[:2]:
        raise LibraryError(f"{path} was built for torch {built}, and this is torch {running}")


def _preload_onednn() -> None:
    """Loads oneDNN from wherever pip put it, where the library's own search path misses it."""
    for file in metadata.files("onednn-cpu-gomp") or []:
        if file.name == "libdnnl.so.3":
            ctypes.CDLL(str(file.locate()), mode=ctypes.RTLD_GLOBAL)
            return


def load() -> Path:
    """Loads the library into torch and returns its path.

    Raises LibraryError if it is missing, was built for another torch, or does not load.
    """
    import torch

    path = find()
    check_version(path, torch.__version__)
    try:
        torch.ops.load_library(str(path))
    except OSError as first:
        try:
            _preload_onednn()
            torch.ops.load_library(str(path))
        except (OSError, metadata.PackageNotFoundError):
            raise LibraryError(f"{path} does not load: {first.__cause__ or first}") from first
    return path
