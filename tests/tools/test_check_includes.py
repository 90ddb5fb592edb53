"""The include rules: each is broken once, and said to be."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_includes"


def check(root: Path, files: dict[str, str], *, explained: bool = True) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for folder in (f for f in path.parents if explained and f.is_relative_to(root)):
            (folder / "README.md").touch()
    done = subprocess.run(
        [sys.executable, str(TOOL), str(root)], capture_output=True, text=True, check=False
    )
    assert done.returncode == (1 if done.stdout else 0), done.stderr
    return done.stdout


def test_includes_to_the_right_are_fine(tmp_path):
    files = {
        "ir/type.h": "#include <vector>\n",
        "lowering/plan/plan.h": '#include "ir/type.h"\n',
        "jit/run/executor.cpp": '#include "lowering/plan/plan.h"\n',
        "jit/kernels/compiler.cpp": '#include "llvm/IR/Module.h"\n',
        "lazy/trace/trace.cpp": '#include <ATen/ATen.h>\n#include "ir/type.h"\n',
    }
    assert check(tmp_path, files) == ""


@pytest.mark.parametrize(
    ("file", "include", "message"),
    [
        ("ir/a.cpp", '"jit/b.h"', 'ir/ may not include jit/: "jit/b.h"'),
        ("ir/a.cpp", "<ATen/ATen.h>", "torch may not be used here: ATen/ATen.h"),
        ("jit/a.cpp", "<torch/library.h>", "torch may not be used here: torch/library.h"),
        ("lowering/plan/plan.cpp", '"llvm/IR/Module.h"', "LLVM may not be used here"),
        ("lazy/a.cpp", "<dnnl.hpp>", "oneDNN may not be used here: dnnl.hpp"),
        ("jit/cache.cpp", "<cuda.h>", "the CUDA driver may not be used here: cuda.h"),
        ("jit/devices/cpu/a.cpp", "<cuda.h>", "the CUDA driver may not be used here: cuda.h"),
        ("jit/executable.h", "<cublasLt.h>", "cuBLASLt may not be used here: cublasLt.h"),
        (
            "jit/devices/cpu/a.cpp",
            '"jit/devices/cuda/b.h"',
            'only cuda/ may include "jit/devices/cuda/b.h"',
        ),
        (
            "jit/run/a.h",
            '"lowering/libraries/cuda/b.h"',
            'only cuda/ may include "lowering/libraries/cuda/b.h"',
        ),
        ("backend/a.cpp", "<Python.h>", "Python may not be used here: Python.h"),
        (
            "lazy/trace/a.cpp",
            '"lazy/run/b.h"',
            'lazy/trace/ may not include lazy/run/: "lazy/run/b.h"',
        ),
        (
            "backend/torch_internals/a.cpp",
            '"jit/b.h"',
            'backend/torch_internals/ may include nothing else of ours: "jit/b.h"',
        ),
        ("jit/a.cpp", '"b.h"', "is not spelled from the repository's root"),
        ("jit/a.cpp", '"jit/none.h"', '"jit/none.h" does not exist'),
        ("jit/a.cpp", "<jit/b.h>", "<jit/b.h> is ours: use quotes"),
    ],
)
def test_a_broken_rule_is_named(tmp_path, file, include, message):
    names = ("jit/b.h", "lazy/run/b.h", "jit/devices/cuda/b.h", "lowering/libraries/cuda/b.h")
    headers = dict.fromkeys(names, "")
    output = check(tmp_path, headers | {file: f"#include {include}\n"})
    assert output.startswith(f"{file}:1: ")
    assert message in output


def test_earlier_rooms_are_fine(tmp_path):
    files = {
        "lazy/support/b.h": "",
        "lazy/c.h": "",
        "lazy/trace/a.cpp": '#include "lazy/c.h"\n#include "lazy/support/b.h"\n',
    }
    assert check(tmp_path, files) == ""


def test_what_lists_all_makers_is_fine(tmp_path):
    files = {
        "lowering/libraries/cuda/b.h": "",
        "jit/devices/cuda/b.h": '#include "lowering/libraries/cuda/b.h"\n',
        "jit/devices/emission.cpp": '#include "jit/devices/cuda/b.h"\n',
    }
    assert check(tmp_path, files) == ""


def test_a_room_that_nobody_explains(tmp_path):
    output = check(tmp_path, {"lazy/trace/a.cpp": ""}, explained=False)
    assert output == "lazy/ has no README.md\nlazy/trace/ has no README.md\n"


def test_a_library_for_one_file_in_two(tmp_path):
    files = {
        "lowering/libraries/onednn.cpp": "#include <dnnl.hpp>\n",
        "lowering/libraries/other.cpp": "#include <dnnl.hpp>\n",
    }
    assert "oneDNN is used in more than 1 file" in check(tmp_path, files)
