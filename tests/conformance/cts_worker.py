"""Runs nodes of TorchCTS on a device as it is told, in a pytest session that a crash may end.

Called with the device (or `compared`) and what to collect (files, or nodes). The first line that it
answers is a JSON list of the collected nodes; then it reads a node a line (see settings.tagged),
and answers with a line of JSON. What pytest and the nodes print goes to stderr.
"""

import functools
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

# Isolation is the supervisor's: TorchCTS shall neither probe the device in processes of its own
# first, nor start one for nodes that crashed on some device.
os.environ["_TORCHCTS_SUBPROCESS"] = "1"

import cts_compared  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
import torchcts  # noqa: E402
from _pytest.runner import runtestprotocol  # noqa: E402
from settings import in_process, setting_of  # noqa: E402
from torchcts import op_metadata  # noqa: E402

PACKAGES = Path(torchcts.__file__).resolve().parent.parent
ROOT = Path(__file__).resolve().parents[2]
MOST_TEXT = 2000


class Session:
    """A pytest plugin: runs the items that it is told to, where pytest runs all of them."""

    def __init__(self, device: str):
        self.device = device

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        module = conftest(session.config)
        # It writes all results to disk again after every node; nobody reads them here.
        module._ARTIFACT_WRITES_ENABLED = False
        if self.device == "compared":
            cts_compared.install(module, [item.module for item in session.items])
        items = {item.nodeid: item for item in session.items}
        print(json.dumps(list(items)), file=answers)
        for line in sys.stdin:
            setting, node = setting_of(line.rstrip("\n"), [""])
            with in_process(setting):
                print(json.dumps(run(items[node])), file=answers)
        return True


def conftest(config):
    """TorchCTS's, which is a plugin and keeps what it knows in globals."""
    for plugin in config.pluginmanager.get_plugins():
        if getattr(plugin, "__name__", "") == "torchcts.conftest":
            return plugin
    raise RuntimeError("TorchCTS's conftest is not among pytest's plugins")


def remember_versions():
    """Which versions of torch TorchCTS's table of operators covers, found out once.

    It reads the whole table for each case that it collects, which takes minutes in a long file.
    """
    versions_of = op_metadata._validation_metadata
    versions = functools.cache(lambda: versions_of(None))

    def remembered(metadata):
        is_own = metadata is None or metadata is op_metadata.load_op_metadata()
        return versions() if is_own else versions_of(metadata)

    op_metadata._validation_metadata = remembered


def run(item) -> dict:
    start = time.perf_counter()
    torch.manual_seed(0)
    reports = runtestprotocol(item, log=False, nextitem=None)
    found = {"outcome": "passed", "message": ""}
    for report in reports:
        if report.failed or (report.skipped and found["outcome"] == "passed"):
            found = {"outcome": report.outcome, "message": text_of(report)}
        if report.failed:
            break
    return {**found, "seconds": time.perf_counter() - start}


def text_of(report) -> str:
    if report.skipped:
        return str(report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr)
    crash = getattr(report.longrepr, "reprcrash", None)
    text = f"{crash.message}\n{crash.path}:{crash.lineno}" if crash else report.longreprtext
    text = re.sub(r"/\S*/site-packages/", "", text).replace(f"{ROOT}/", "")
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}..."


def main() -> int:
    device, *collected = sys.argv[1:]
    torch.set_num_threads(1)
    remember_versions()
    options = ["-c", os.devnull, f"--rootdir={PACKAGES}", "-s", "-q", "--tb=short"]
    plugins = ["cacheprovider", "xdist", "timeout"]
    options += [part for name in plugins for part in ("-p", f"no:{name}")]
    options += ["--known-segfault-policy", "off", "--adaptive-isolation", "off"]
    with tempfile.TemporaryDirectory() as folder:
        name = "cpu" if device == "compared" else device
        options += ["--device", name, "--results-dir", folder]
        return pytest.main([*options, *collected], plugins=[Session(device)])


if __name__ == "__main__":
    sys.exit(main())
