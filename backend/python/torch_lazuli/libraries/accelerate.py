"""accelerate: which device it takes, several processes over gloo, fp16, states of generators.

A device is named to accelerate by ACCELERATE_TORCH_DEVICE. It knows nothing of how several
processes work together on a device that is not in its lists: each would train a model of its own.
"""

import contextlib
import inspect
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.libraries.imports import replace
from torch_lazuli.libraries.naming import is_lazuli, is_on_lazuli, named

VARIABLE = "ACCELERATE_TORCH_DEVICE"


def _is_flag(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true", "yes", "on", "y", "t")


def teach_state(module: types.ModuleType) -> None:
    """The process's state: its device, and how it works together with others."""
    State, kinds = module.PartialState, module.DistributedType

    @replace(State, "_prepare_backend")
    def prepare_backend(original, self, cpu=False, sagemaker_dp=False, backend=None):
        if cpu or not is_lazuli(self.device) or int(os.environ.get("LOCAL_RANK", -1)) == -1:
            return original(self, cpu, sagemaker_dp, backend)
        for flag in ("DEEPSPEED", "FSDP", "MEGATRON_LM"):
            if _is_flag(f"ACCELERATE_USE_{flag}"):
                raise ValueError(
                    f"lazuli: accelerate's {flag} knows GPUs only; processes on lazuli work "
                    "together by DistributedDataParallel"
                )
        # What accelerate does for processes on CPUs is right for any device that gloo serves.
        return backend or "gloo", kinds.MULTI_CPU

    # Last: the device is not taken where its processes would not be connected.
    @replace(State, "__init__")
    def init(original, self, cpu=False, **options):
        on_cpu = cpu or _is_flag("ACCELERATE_USE_CPU")
        if self._shared_state or named() is None:
            return original(self, cpu, **options)
        with _device_named(None if on_cpu else _name()):
            original(self, cpu, **options)


def _name() -> str:
    given = os.environ.get(VARIABLE)
    return given if is_lazuli(given) else TYPE


@contextlib.contextmanager
def _device_named(name: str | None) -> Iterator[None]:
    """With the variable by which accelerate is told the device; None: without it."""
    before = os.environ.pop(VARIABLE, None)
    if name is not None:
        os.environ[VARIABLE] = name
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


def teach_accelerator(module: types.ModuleType) -> None:
    """`Accelerator`: models that are on lazuli already, fp16."""
    Accelerator = module.Accelerator

    @replace(module, "get_grad_scaler")
    def get_grad_scaler(original, distributed_type=None, **options):
        if is_lazuli(module.PartialState().device):
            return torch.amp.GradScaler(TYPE, **options)
        return original(distributed_type, **options)

    @replace(Accelerator, "prepare")
    def prepare(original, self, *objects, **options):
        if any(is_on_lazuli(thing) for thing in objects):
            _stay_on_lazuli(module, self)
        return original(self, *objects, **options)

    @replace(Accelerator, "prepare_model")
    def prepare_model(original, self, model, device_placement=None, evaluation_mode=False):
        if is_on_lazuli(model):
            _stay_on_lazuli(module, self)
        return original(self, model, device_placement, evaluation_mode)

    _add_to_devices_of_fp16(Accelerator.__init__)  # last: a version may have no such list


def _add_to_devices_of_fp16(init) -> None:
    """The devices that have a GradScaler stand in a constant of the function."""
    code = inspect.unwrap(init).__code__

    def with_ours(constant):
        is_list = isinstance(constant, tuple) and {"cuda", "npu", "xpu"} <= set(constant)
        return (*constant, TYPE) if is_list else constant

    constants = tuple(with_ours(constant) for constant in code.co_consts)
    if constants == code.co_consts:
        raise AttributeError("Accelerator.__init__ has no list of the devices that fp16 is for")
    inspect.unwrap(init).__code__ = code.replace(co_consts=constants)


def _stay_on_lazuli(module: types.ModuleType, accelerator) -> None:
    """Makes lazuli the device of an accelerator that gets a model which is there already.

    Raises RuntimeError if there are several processes, which accelerate did not connect.
    """
    state = accelerator.state
    if is_lazuli(state.device) or state._cpu or not accelerator.device_placement:
        return
    if state.num_processes == 1 and int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise RuntimeError(
            "lazuli: there are several processes, and accelerate has not connected them: each "
            f"would train a model of its own. Name the device before: {VARIABLE}={TYPE}"
        )
    device = torch.device(TYPE, 0)
    for shared in (module.AcceleratorState._shared_state, module.PartialState._shared_state):
        shared["device"] = device
    for loader in accelerator._dataloaders:
        loader.device = device


def teach_checkpoints(module: types.ModuleType) -> None:
    """Adds the device's generator to the random states that are saved."""

    @replace(module, "save_accelerator_state")
    def save(original, output_dir, *arguments, **options):
        result = original(output_dir, *arguments, **options)
        if torch.lazuli.is_initialized():
            path = _random_states(module, output_dir, original, arguments, options)
            states = torch.load(path, weights_only=False)
            torch.save(states | {_KEY: torch.lazuli.get_rng_state_all()}, path)
        return result

    @replace(module, "load_accelerator_state")
    def load(original, input_dir, *arguments, **options):
        result = original(input_dir, *arguments, **options)
        if torch.lazuli.is_initialized() or is_lazuli(_device_of_state()):
            try:
                path = _random_states(module, input_dir, original, arguments, options)
                states = module.load(path) if path.exists() else {}
                if _KEY in states:
                    torch.lazuli.set_rng_state_all(states[_KEY])
            except Exception:  # as accelerate does with the states of other generators
                module.logger.info("Could not load the random states of lazuli", exc_info=True)
        return result


_KEY = f"torch_{TYPE}_manual_seed"


def _device_of_state() -> torch.device | None:
    """The device that accelerate has taken; None: none yet."""
    return sys.modules["accelerate.state"].PartialState._shared_state.get("device")


def _random_states(module, folder, function, arguments, options) -> Path:
    bound = inspect.signature(function).bind(folder, *arguments, **options).arguments
    return Path(folder) / f"{module.RNG_STATE_NAME}_{bound['process_index']}.pkl"


def teach_launcher(module: types.ModuleType) -> None:
    """`accelerate launch`: one process unless more were asked for, however many GPUs there are."""

    @replace(module, "_validate_launch_command")
    def validate(original, given):
        asked = given.num_processes
        result = original(given)
        arguments, defaults, _ = result
        if asked is None and defaults is None and _launches_for_lazuli(arguments):
            arguments.num_processes, arguments.multi_gpu = 1, False
        return result


def teach_launching(module: types.ModuleType) -> None:
    """As many processes as were asked for: accelerate starts one where it finds no GPUs."""

    @replace(module, "prepare_simple_launcher_cmd_env")
    def prepare(original, arguments):
        command, environment = original(arguments)
        processes = arguments.num_processes or 1
        if processes == 1 or not _launches_for_lazuli(arguments):
            return command, environment
        if (arguments.num_machines or 1) > 1:
            raise ValueError("lazuli: for several machines, ask accelerate for --multi_gpu")
        port = arguments.main_process_port
        meeting = f"--master_port={port}" if port else "--standalone"
        torchrun = [sys.executable, "-m", "torch.distributed.run", meeting]
        return [*torchrun, f"--nproc_per_node={processes}", "--no_python", *command], environment


def _launches_for_lazuli(arguments) -> bool:
    others = ("cpu", "tpu", "use_deepspeed", "use_fsdp", "use_megatron_lm")
    return named() is not None and not any(getattr(arguments, it, False) for it in others)
