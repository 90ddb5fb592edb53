"""The suites of `tests/conformance` lend their cases and their comparison."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))
