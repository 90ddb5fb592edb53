"""transformers: the device that `Trainer` and `pipeline` take, bf16, states of generators."""

import functools
import os
import types

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.libraries.imports import replace
from torch_lazuli.libraries.naming import choosing, is_lazuli, is_on_lazuli, named

BY_MODEL = "a model that is on it"


def teach_arguments(module: types.ModuleType) -> None:
    """`TrainingArguments`: the device, and whether it has bf16."""
    Arguments = module.TrainingArguments
    original = Arguments.__dict__["_setup_devices"].func

    @functools.cached_property
    @functools.wraps(original)
    def setup_devices(self):
        device = original(self)
        if self.use_cpu or named() is None:
            return device
        self._n_gpu = 1
        return torch.device(TYPE, 0)

    Arguments._setup_devices = setup_devices
    setup_devices.__set_name__(Arguments, "_setup_devices")

    @replace(module, "is_torch_bf16_gpu_available")
    def is_bf16_available(original):
        # Arguments come before the trainer that is given a model which is on the device.
        return named() is not None or torch.lazuli.is_initialized() or original()


def teach_trainer(module: types.ModuleType) -> None:
    """`Trainer`: a model that is on lazuli stays there; the device's generator is saved."""
    Trainer = module.Trainer

    @replace(Trainer, "__init__")
    def init(original, self, model=None, args=None, *arguments, **options):
        if not is_on_lazuli(model) or (args is not None and args.use_cpu):
            return original(self, model, args, *arguments, **options)
        with choosing(BY_MODEL):
            if args is not None and not is_lazuli(args.device):
                _set_up_again(args)
            original(self, model, args, *arguments, **options)

    @replace(Trainer, "_save_rng_state")
    def save_rng_state(original, self, output_dir):
        original(self, output_dir)
        if is_lazuli(self.args.device):
            path = _random_states(self, output_dir)
            states = torch.load(path, weights_only=False)
            torch.save(states | {TYPE: torch.lazuli.get_rng_state_all()}, path)

    @replace(Trainer, "_load_rng_state")
    def load_rng_state(original, self, checkpoint):
        original(self, checkpoint)
        if checkpoint is None or not is_lazuli(self.args.device):
            return
        path = _random_states(self, checkpoint)
        if os.path.isfile(path):
            with module.safe_globals():
                states = torch.load(path, weights_only=True)
            if TYPE in states:
                torch.lazuli.set_rng_state_all(states[TYPE])


def _set_up_again(args) -> None:
    """Lets arguments, and accelerate with them, take the device that is named by now."""
    del args._setup_devices
    device = args.device  # sets it up
    if not is_lazuli(device):
        raise RuntimeError(f"lazuli: the model is on it, but the trainer's device is {device}")


def _random_states(trainer, folder: str) -> str:
    several = trainer.args.world_size > 1
    name = f"rng_state_{trainer.args.process_index}.pth" if several else "rng_state.pth"
    return os.path.join(folder, name)


def teach_pipelines(module: types.ModuleType) -> None:
    """`pipeline(...)` without a device, or with a model that is on lazuli."""

    @replace(module.Pipeline, "__init__")
    def init(original, self, model, *arguments, device=None, **options):
        if device is None and getattr(model, "hf_device_map", None) is None:
            is_named = is_on_lazuli(model) or named() is not None
            device = torch.device(TYPE, 0) if is_named else None
        original(self, model, *arguments, device=device, **options)
