"""Where tables lie, and what a run has found so far: for each version of torch apart.

Those of the torch that the checkout is for lie in the folders themselves, those of any other in one
of its name.
"""

import re
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
STORED = Path(__file__).with_name("results")


def usual_torch() -> str:
    return re.search(r"^usual_torch=(\S+)$", (ROOT / "tools" / "setup").read_text(), re.M)[1]


def of_torch(folder: Path, torch: str) -> Path:
    torch = torch.partition("+")[0]
    return folder if torch == usual_torch() else folder / f"torch-{torch}"


RESULTS = of_torch(STORED, version("torch"))
FOUND = of_torch(ROOT / "build" / "conformance", version("torch"))
