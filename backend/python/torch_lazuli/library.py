"""Finds the library that is built for the running torch, and loads it."""

import ctypes
import os
import re
from pathlib import Path

PREFIX = "liblazuli_torch_"


class LibraryError(RuntimeError):
    """The plugin is missing, or does not fit the torch that is running."""


def minor_of(version: str) -> str:
    """The minor version of torch: "2.11" of "2.11.0+cu130"."""
    return ".".join(version.split("+")[0].split(".")[:2])


def folders() -> list[Path]:
    """Where libraries may be: beside this file (a wheel), in the build folder of a checkout."""
    here = Path(__file__).resolve().parent
    checkout = here.parent.parent.parent
    return [here, checkout / "build" / os.environ.get("LAZULI_PRESET", "release")]


def built_for() -> list[str]:
    """The minor versions of torch that there are libraries for, the oldest first."""
    paths = [path for folder in folders() for path in folder.glob(f"{PREFIX}*.so")]
    versions = {path.name.removeprefix(PREFIX).removesuffix(".so") for path in paths}
    return sorted(versions, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])


def find(running: str) -> Path:
    """The library for torch of version `running`.

    A library uses the layouts of torch's C++ classes, which change from one minor version to the
    next: loading it into another would crash. LAZULI_LIBRARY names a library outright. Raises
    LibraryError, which says what there is.
    """
    minor = minor_of(running)
    if named := os.environ.get("LAZULI_LIBRARY"):
        path = Path(named)
        if not path.exists():
            raise LibraryError(f"{path} does not exist")
        built = re.fullmatch(rf"{PREFIX}([\d.]+)\.so", path.name)
        if built and built.group(1) != minor:
            raise LibraryError(
                f"{path} was built for torch {built.group(1)}, and this is torch {running}"
            )
        return path
    for folder in folders():
        path = folder / f"{PREFIX}{minor}.so"
        if path.exists():
            return path
    if versions := built_for():
        raise LibraryError(
            f"this is torch {running}, and there are libraries for torch {', '.join(versions)} only"
        )
    looked = " or ".join(str(folder) for folder in folders())
    raise LibraryError(f"there is no {PREFIX}{minor}.so in {looked}; run tools/setup to build it")


def loader_of(path: Path) -> Path:
    """The small library that stands in for the plugin `path` until that is loaded.

    Raises LibraryError if it is not beside the plugin.
    """
    loader = path.with_name(path.name.replace(PREFIX, "liblazuli_loader_"))
    if loader == path or not loader.exists():
        raise LibraryError(f"{path} has no library beside it that loads it")
    return loader


def _preload_onednn() -> None:
    """Loads oneDNN from wherever pip put it, where the library's own search path misses it.

    Raises OSError if it is not there.
    """
    from importlib import metadata  # slow to import

    try:
        files = metadata.files("onednn-cpu-gomp") or []
    except metadata.PackageNotFoundError as error:
        raise OSError("the package onednn-cpu-gomp is not installed") from error
    for file in files:
        if file.name == "libdnnl.so.3":
            ctypes.CDLL(str(file.locate()), mode=ctypes.RTLD_GLOBAL)
            return


def load(path: Path) -> None:
    """Loads the library into torch. Raises LibraryError if it does not load."""
    import torch

    try:
        torch.ops.load_library(str(path))
    except OSError as first:
        try:
            _preload_onednn()
            torch.ops.load_library(str(path))
        except OSError:
            raise LibraryError(f"{path} does not load: {first.__cause__ or first}") from first
