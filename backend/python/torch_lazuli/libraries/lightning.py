"""Lightning and Fabric: an accelerator "lazuli", what "auto" is, and mixed precision.

The accelerator stands in Lightning's own registry. The rest of Lightning asks for accelerators by
name where it chooses strategies and precision; there functions are put in place of its own.
"""

import importlib
import types
import warnings

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.libraries.imports import replace
from torch_lazuli.libraries.naming import is_on_lazuli, named


def teach_accelerators(module: types.ModuleType) -> None:
    """Registers the accelerator, in Fabric's registry or in Lightning's."""
    registry = getattr(module, "AcceleratorRegistry", None)
    if registry is None:
        registry = module.ACCELERATOR_REGISTRY
    registry.register(TYPE, _accelerator(module), description="Lazuli, one device")


def _accelerator(module: types.ModuleType) -> type:
    fabric = module.__name__.replace("pytorch_lightning", "lightning_fabric")
    fabric = fabric.replace("lightning.pytorch", "lightning.fabric")
    parse_cores = importlib.import_module(f"{fabric}.cpu")._parse_cpu_cores

    class LazuliAccelerator(module.Accelerator):
        """The device lazuli. Several processes share it, as they share a CPU."""

        def setup_device(self, device: torch.device) -> None:
            """Makes it the current device. Raises ValueError for a device of another type."""
            torch.lazuli.set_device(device)

        def get_device_stats(self, device: torch.device | str | int) -> dict:
            """The statistics of the device's memory, in bytes."""
            return torch.lazuli.memory_stats(device)

        def teardown(self) -> None:
            torch.lazuli.empty_cache()

        @staticmethod
        def parse_devices(devices: int | str) -> int:
            """How many processes were asked for: a positive number, or a text that is one."""
            return parse_cores(devices)

        @staticmethod
        def get_parallel_devices(devices: int | str) -> list[torch.device]:
            """The device of each process: the same one."""
            return [torch.device(TYPE, 0)] * parse_cores(devices)

        @staticmethod
        def auto_device_count() -> int:
            return 1

        @staticmethod
        def is_available() -> bool:
            return torch.lazuli.is_available()

        @staticmethod
        def name() -> str:
            return TYPE

    return LazuliAccelerator


def teach_connector(module: types.ModuleType) -> None:
    """What chooses accelerator, strategy and precision for a trainer, or for a Fabric."""
    Connector = getattr(module, "_AcceleratorConnector", None) or module._Connector

    @replace(Connector, "_choose_strategy")
    def choose_strategy(original, self):
        is_one = _is_ours(self) and len(self._parallel_devices) == 1
        if is_one and self._num_nodes_flag == 1:
            return module.SingleDeviceStrategy(device=self._parallel_devices[0])
        return original(self)

    @replace(Connector, "_check_and_init_precision")
    def precision(original, self):
        if not _is_ours(self) or (chosen := _precision(self)) not in ("16-mixed", "bf16-mixed"):
            return original(self)
        return module.MixedPrecision(chosen, device=TYPE)

    # Last: nothing chooses the accelerator where the strategy would not be taught.
    @replace(Connector, "_choose_auto_accelerator")
    def choose_auto(original, *self):
        return original(*self) if named() is None else TYPE

    @replace(Connector, "_choose_gpu_accelerator_backend")
    def choose_gpu(original, *self):
        return TYPE if named() == "LAZULI_TAKE_OVER" else original(*self)


def _is_ours(connector) -> bool:
    """Whether its first process has lazuli. Accelerators have names only since Lightning 2.5.6."""
    devices = getattr(connector, "_parallel_devices", None)
    if not isinstance(devices, list | tuple) or not devices:
        return False
    return getattr(devices[0], "type", None) == TYPE


def _precision(connector) -> str | None:
    """The precision that was asked for by its name; None if a plugin was given."""
    in_fabric = hasattr(connector, "_precision_input")
    given, name = (
        (connector._precision_instance, connector._precision_input)
        if in_fabric
        else (connector._precision_plugin_flag, connector._precision_flag)
    )
    return name if given is None else None


def teach_ddp(module: types.ModuleType) -> None:
    """DistributedDataParallel in a trainer."""
    _without_device_ids(module.DDPStrategy, "determine_ddp_device_ids")


def teach_fabric_ddp(module: types.ModuleType) -> None:
    """DistributedDataParallel in a Fabric."""
    _without_device_ids(module.DDPStrategy, "_determine_ddp_device_ids")


def _without_device_ids(Strategy: type, name: str) -> None:
    """Numbers of devices are for GPUs; with them Lightning makes CUDA's streams."""

    @replace(Strategy, name)
    def device_ids(original, self):
        return None if self.root_device.type == TYPE else original(self)


def teach_single_device(module: types.ModuleType) -> None:
    """Warns where a model that is on lazuli is moved away because nobody named the device."""
    Strategy = module.SingleDeviceStrategy
    if hasattr(Strategy, "model_to_device"):  # in a trainer

        @replace(Strategy, "model_to_device")
        def model_to_device(original, self):
            _warn_if_moved(self.model, self)
            original(self)

    else:

        @replace(Strategy, "module_to_device")
        def module_to_device(original, self, module):
            _warn_if_moved(module, self)
            original(self, module)


def _warn_if_moved(model, strategy) -> None:
    if is_on_lazuli(model) and strategy.root_device.type != TYPE:
        warnings.warn(
            f"lazuli: Lightning moves a model from lazuli to {strategy.root_device}; "
            f'accelerator="{TYPE}" keeps it there',
            stacklevel=4,
        )


def teach_seeds(module: types.ModuleType) -> None:
    """Adds the device's generator to the random states that Lightning keeps and puts back."""

    @replace(module, "_collect_rng_states")
    def collect(original, include_cuda=True):
        states = original(include_cuda)
        if torch.lazuli.is_initialized():
            states[f"torch.{TYPE}"] = torch.lazuli.get_rng_state_all()
        return states

    @replace(module, "_set_rng_states")
    def put_back(original, states):
        original(states)
        if f"torch.{TYPE}" in states:
            torch.lazuli.set_rng_state_all(states[f"torch.{TYPE}"])
