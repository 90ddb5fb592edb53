"""A copy of the checkout with faults in it, and its build."""

import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

from mutation import plant
from mutation.faults import Fault

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("backend", "cmake", "ir", "jit", "lazy", "lowering")
TARGETS = ("lazuli", "lazuli-opt", "lazuli_core_tests")
# Checks that the places are there, which in the copy they are not.
LEFT_OUT = "tests/mutation/"


class BuildFailed(Exception):
    pass


def listed_files() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [n for n in names.split("\0") if n and (ROOT / n).is_file()]


def digest_of_sources() -> str:
    """Of what is built: results of another build are no results."""
    digest = sha256()
    for name in sorted(listed_files()):
        if name.split("/")[0] in SOURCES:
            digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return digest.hexdigest()[:16]


class Tree:
    """A copy with these faults. Only what changed is written, and so built."""

    def __init__(self, folder: Path, faults: list[Fault], alone: bool = False):
        self.folder = folder
        self.faults = faults
        self.alone = alone  # the one fault is compiled in

    def write(self) -> None:
        planted = plant.by_file(self.faults)
        wanted = {}
        for name in listed_files():
            if name.startswith(LEFT_OUT):
                continue
            data = (ROOT / name).read_bytes()
            if name in planted:
                data = self.with_faults(data.decode(), planted[name]).encode()
            wanted[name] = data
        if not self.alone:
            wanted[plant.HEADER] = plant.HEADER_TEXT.encode()
        for name, data in wanted.items():
            path = self.folder / name
            if not path.exists() or path.read_bytes() != data:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                shutil.copymode(ROOT / name if (ROOT / name).exists() else __file__, path)
        self.remove_others(wanted)
        if not (self.folder / ".venv").exists():
            (self.folder / ".venv").symlink_to((ROOT / ".venv").resolve())

    def with_faults(self, text: str, faults: list[Fault]) -> str:
        return plant.plant_alone(text, faults[0]) if self.alone else plant.plant(text, faults)

    def remove_others(self, wanted: dict) -> None:
        for top in {name.split("/")[0] for name in wanted if "/" in name}:
            for path in (self.folder / top).rglob("*"):
                name = path.relative_to(self.folder).as_posix()
                if path.is_file() and name not in wanted and "__pycache__" not in name:
                    path.unlink()

    def build(self, jobs: int) -> None:
        build = self.folder / "build" / "release"
        if not (build / "build.ninja").exists():
            python = self.folder / ".venv" / "bin" / "python"
            self.run("cmake", "--preset", "release", f"-DLAZULI_PYTHON={python}")
        self.run("ninja", "-C", str(build), f"-j{jobs}", "-k0", *TARGETS)

    def run(self, *command: str) -> None:
        log = self.folder / "build.log"
        with log.open("wb") as out:
            done = subprocess.run(command, cwd=self.folder, stdout=out, stderr=out, check=False)
        if done.returncode:
            errors = [line for line in log.read_text().splitlines() if "error:" in line]
            raise BuildFailed("\n".join([*errors[:40], f"the whole log is in {log}"]))

    def environment(self, planted: int | None) -> dict[str, str]:
        """What programs of this tree run under."""
        own = {k: v for k, v in os.environ.items() if not k.startswith("LAZULI_")}
        own |= {"LAZULI_HOME": str(self.folder), "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
        own["OMP_NUM_THREADS"] = "1"
        if planted:
            own[plant.VARIABLE] = str(planted)
        return own
