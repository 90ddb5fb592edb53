"""Prints where torch, oneDNN and CUDA's headers are in this environment, as NAME=value; items.

Nothing is imported from them: importing torch would cost seconds at every configure.
"""

import importlib.util
from importlib import metadata
from pathlib import Path


def locate_torch() -> dict[str, str]:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    folder = Path(spec.origin).resolve().parent
    return {"TORCH_FOLDER": str(folder)}


def locate_file(distribution: str, name: str) -> Path | None:
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return None
    found = [Path(file.locate()).resolve() for file in files if file.name == name]
    return min(found, key=lambda path: len(path.parts), default=None)


def main() -> None:
    facts = locate_torch()
    library = locate_file("onednn-cpu-gomp", "libdnnl.so.3")
    header = locate_file("onednn-devel-cpu-gomp", "dnnl.hpp")
    if library:
        facts["DNNL_LIBRARY"] = str(library)
    if header:
        facts["DNNL_INCLUDE"] = str(header.parent)
    cublas = locate_file("nvidia-cublas", "cublasLt.h")
    if cublas:
        facts["CUDA_INCLUDE"] = str(cublas.parent)
    # What cublasLt.h includes of the compiler's headers is in none of torch's CUDA wheels, but in
    # Triton's.
    compiler = locate_file("triton", "cuda.h")
    if compiler:
        facts["CUDA_CRT_INCLUDE"] = str(compiler.parent)
    print(";".join(f"{name}={value}" for name, value in facts.items()))


main()
