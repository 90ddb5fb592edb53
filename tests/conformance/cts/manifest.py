"""What TorchCTS may ask for: all of its `complete` template, since torch's cpu can do all of that.

The template leaves out what needs a second device and what needs a decoder of one's own. TorchCTS
reads this file from the folder in which it runs; `tools/conformance torchcts` names the device.
"""

import importlib.util
from pathlib import Path

import torchcts

_path = Path(torchcts.__file__).parent / "templates" / "manifest.complete.py"
_spec = importlib.util.spec_from_file_location("complete_template", _path)
_template = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_template)

manifest = {
    **_template.manifest,
    "backend_import": "torch_lazuli",
    "hardware": {
        **_template.manifest["hardware"],
        "memory_model": "unified",
        "device_memory_gb": [4],
        # The host's memory is overcommitted: Linux ends the process, whatever the device.
        "oom_recoverable": False,
    },
}
