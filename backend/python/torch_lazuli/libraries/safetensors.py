"""safetensors: files read straight to the device, whose name its compiled reader does not know."""

import types

import torch

from torch_lazuli.devices import TYPE


def teach(module: types.ModuleType) -> None:
    """Lets `safe_open`, and so `load_file` and `load_model`, take the device.

    Raises AttributeError if the library has no `safe_open`.
    """
    original = module.safe_open

    class safe_open:
        """safetensors' reader. For lazuli it reads what the host maps, and copies each tensor."""

        __doc__ = original.__doc__

        def __new__(cls, filename, framework, device="cpu", **options):
            if not _is_ours(framework, device):
                return original(filename, framework, device, **options)
            return _Reader(original(filename, framework, "cpu", **options), torch.device(device))

    safe_open.__name__ = safe_open.__qualname__ = "safe_open"
    module.safe_open = safe_open


def _is_ours(framework: str, device: object) -> bool:
    if framework not in ("pt", "torch", "pytorch") or not isinstance(device, str | torch.device):
        return False
    return str(device).partition(":")[0] == TYPE


class _Reader:
    """What `safe_open` gives for the device: the reader for the host, and copies of its tensors."""

    def __init__(self, host, device: torch.device):
        self._host, self._device = host, device

    def __enter__(self) -> "_Reader":
        self._host.__enter__()
        return self

    def __exit__(self, *exception):
        return self._host.__exit__(*exception)

    def __getattr__(self, name: str):
        return getattr(self._host, name)

    def get_tensor(self, name: str) -> torch.Tensor:
        return self._host.get_tensor(name).to(self._device)

    def get_tensors(self) -> dict[str, torch.Tensor]:
        return {name: t.to(self._device) for name, t in self._host.get_tensors().items()}

    def get_slice(self, name: str) -> "_Slice":
        return _Slice(self._host.get_slice(name), self._device)


class _Slice:
    """A tensor of a file of which only the parts that are asked for are read."""

    def __init__(self, host, device: torch.device):
        self._host, self._device = host, device

    def __getitem__(self, index) -> torch.Tensor:
        return self._host[index].to(self._device)

    def __getattr__(self, name: str):
        return getattr(self._host, name)
