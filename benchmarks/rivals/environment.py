"""The rivals' Python environment: made on demand, on top of the one that runs this.

It sees the packages of the environment that runs this, and has the rivals besides, so that neither
torch is there twice nor a rival where nobody asked for it.
"""

import hashlib
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from benchmarks.revision import ROOT

REQUIREMENTS = ROOT / "requirements" / "rivals.txt"


def _folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    base = os.path.realpath(sys.prefix).encode()
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + base).hexdigest()[:12]
    return cache / "lazuli" / f"rivals-{key}"


def python() -> Path:
    """The environment's Python. Makes the environment if it is not there or not finished."""
    folder = _folder()
    found, stamp = folder / "bin" / "python", folder / "finished"
    if not stamp.exists():
        print(f"[rivals] making the Python environment {folder}", flush=True)
        venv.create(folder, clear=True, with_pip=True)
        packages = next(folder.glob("lib/python*/site-packages"))
        (packages / "below.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        command = [found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, "-r", REQUIREMENTS], check=True)
        stamp.touch()
    return found
