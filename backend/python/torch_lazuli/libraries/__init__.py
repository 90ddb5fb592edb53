"""What other libraries must know of the device: one small file for each.

Most libraries take the device that they are given. Some choose one, and have a list of the devices
that there are: a device that torch learns of later is not in it, and they take the CPU without a
word. A file of this folder answers their questions. Where a library has a plugin point, the file
uses it (Lightning's registry of accelerators, accelerate's environment variable). Where it has
none, it puts functions in the place of the library's.

Nothing of this changes where an existing program runs: what is put in place asks `named()` first,
or whether a model is on the device, and does what the library did otherwise. imports.py puts it in
place when a library is imported. A library that is never imported costs nothing.
"""

from torch_lazuli.libraries.imports import Imports

__all__ = ["named", "report_unknown_versions", "watch"]

# module of a library: our file, and its function that gets the module once that is imported
TAUGHT = {
    "accelerate.accelerator": ("accelerate", "teach_accelerator"),
    "accelerate.checkpointing": ("accelerate", "teach_checkpoints"),
    "accelerate.commands.launch": ("accelerate", "teach_launcher"),
    "accelerate.state": ("accelerate", "teach_state"),
    "accelerate.utils.launch": ("accelerate", "teach_launching"),
    "fastai.torch_core": ("fastai", "teach"),
    "ignite.distributed.comp_models.base": ("ignite", "teach_one_process"),
    "ignite.distributed.comp_models.native": ("ignite", "teach_processes"),
    "safetensors": ("safetensors", "teach"),
    "sentence_transformers.util.environment": ("sentence_transformers", "teach"),
    "timm.utils.distributed": ("timm", "teach"),
    "torch_geometric.device": ("torch_geometric", "teach"),
    "torch._dynamo.backends.registry": ("dynamo", "teach"),
    "torch._inductor": ("aot_inductor", "teach"),
    "torch.nn.attention.flex_attention": ("flex_attention", "teach"),
    "torch.utils.benchmark.utils.timer": ("benchmark", "teach"),
    "torch.utils.flop_counter": ("flop_counter", "teach"),
    "transformers.pipelines.base": ("transformers", "teach_pipelines"),
    "transformers.trainer": ("transformers", "teach_trainer"),
    "transformers.training_args": ("transformers", "teach_arguments"),
}
# Those that `python -m` runs, and what does their work.
PROGRAMS = {"accelerate.commands.launch": "main"}
# Lightning comes as one package, or as two.
for fabric in ("lightning.fabric", "lightning_fabric"):
    TAUGHT[f"{fabric}.accelerators"] = ("lightning", "teach_accelerators")
    TAUGHT[f"{fabric}.connector"] = ("lightning", "teach_connector")
    TAUGHT[f"{fabric}.strategies.single_device"] = ("lightning", "teach_single_device")
    TAUGHT[f"{fabric}.strategies.ddp"] = ("lightning", "teach_fabric_ddp")
    TAUGHT[f"{fabric}.utilities.seed"] = ("lightning", "teach_seeds")
for trainer in ("lightning.pytorch", "pytorch_lightning"):
    connectors = f"{trainer}.trainer.connectors"
    TAUGHT[f"{trainer}.accelerators"] = ("lightning", "teach_accelerators")
    TAUGHT[f"{connectors}.accelerator_connector"] = ("lightning", "teach_connector")
    TAUGHT[f"{trainer}.strategies.ddp"] = ("lightning", "teach_ddp")
    TAUGHT[f"{trainer}.strategies.single_device"] = ("lightning", "teach_single_device")


def named() -> str | None:
    """How the user asked for lazuli, in words; None: not at all (naming.py has the rule)."""
    from torch_lazuli.libraries import naming  # not needed by `import torch`

    return naming.named()


_imports = Imports(TAUGHT, PROGRAMS)
watch = _imports.watch
report_unknown_versions = _imports.device_is_used
