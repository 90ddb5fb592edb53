"""Installs a signpost into this Python's environment, so that it finds the checkout's package.

The environment is shared by all checkouts, so nothing of a checkout is installed into it. What is
installed is a module that looks for the checkout at start-up (see CHECKOUT below), and an entry
point by which `import torch` loads the device. `pip install .` replaces it by the real package.
"""

import sys
import sysconfig
from pathlib import Path

VERSION = "0.2.0"

CHECKOUT = '''\
"""Finds the Lazuli checkout that this environment serves, and puts its package on sys.path.

In order: LAZULI_HOME; the folder of the .venv link that Python was started through; the nearest
folder above the working directory. Without a checkout nothing happens.
"""

import os
import sys


def find():
    folders = [os.environ.get("LAZULI_HOME"), os.path.dirname(sys.prefix)]
    try:
        here = os.getcwd()
    except OSError:
        here = "/"
    while here != os.path.dirname(here):
        folders.append(here)
        here = os.path.dirname(here)
    for folder in folders:
        package = os.path.join(folder, "backend", "python") if folder else ""
        if package and os.path.exists(os.path.join(package, "torch_lazuli", "__init__.py")):
            return package
    return None


def autoload():
    try:
        import torch_lazuli
    except ModuleNotFoundError:
        return
    torch_lazuli._autoload()


_package = find()
if _package and _package not in sys.path:
    sys.path.append(_package)
'''

METADATA = f"Metadata-Version: 2.1\nName: torch-lazuli\nVersion: {VERSION}\n"
ENTRY_POINTS = "[torch.backends]\nlazuli = _lazuli_checkout:autoload\n"
COMMAND = """\
#!{python}
from torch_lazuli.takeover.runner import main

main()
"""


def main() -> None:
    site = Path(sysconfig.get_paths()["purelib"])
    info = f"torch_lazuli-{VERSION}.dist-info"
    if (site / "torch_lazuli").exists():
        return  # the real package was installed: leave it
    files = {
        "_lazuli_checkout.py": CHECKOUT,
        "torch_lazuli_checkout.pth": "import _lazuli_checkout\n",
        f"{info}/METADATA": METADATA,
        f"{info}/INSTALLER": "lazuli-checkout\n",
        f"{info}/entry_points.txt": ENTRY_POINTS,
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    for name, text in files.items():
        path = site / name
        if path.exists() and path.read_text() == text:
            continue
        path.parent.mkdir(exist_ok=True)
        fresh = path.with_name(path.name + ".new")
        fresh.write_text(text)
        fresh.replace(path)
    command = Path(sysconfig.get_paths()["scripts"]) / "lazuli"
    if not command.exists():
        command.write_text(COMMAND.format(python=sys.executable))
        command.chmod(0o755)


main()
