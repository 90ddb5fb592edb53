"""Puts in place what the files of this folder replace, once the plugin is loaded."""

from pathlib import Path

from torch_lazuli import reference
from torch_lazuli.torch_internals import (
    addresses,
    compilation,
    cuda_generator,
    default_device,
    engine,
    exchange,
    losses,
    node_types,
    optimizers,
    printing,
    processes,
    quantized,
    random_states,
    rpc,
)


def apply(library: Path) -> None:
    """Puts everything in place; once."""
    node_types.register()
    quantized.make_beside_their_like()
    printing.print_from_the_host()
    addresses.read_and_write_through_the_host()
    addresses.lend_addresses()
    exchange.exchange_through_lent_memory()
    processes.send_through_the_host()
    processes.warn_where_memory_is_to_be_shared()
    rpc.refuse_device_maps()
    compilation.leave_to_the_device()
    compilation.trace_recurrent_networks_in_other_operators()
    compilation.decompose_what_the_cpu_does()
    cuda_generator.read_the_state_between_calls()
    default_device.pin_only_what_is_on_the_host()
    losses.accumulate_as_the_cpu()
    random_states.fork_those_of_the_devices_named()
    engine.take_back_after_compiled_autograd()
    engine.show_backward_its_roots(library)
    engine.say_which_node_runs()
    optimizers.average_as_eager()
    optimizers.choose_lists_at_less_cost()
    if reference.is_on():
        optimizers.step_as_eager()
    else:
        optimizers.step_adam_in_one_call()
        optimizers.keep_gradients_of_nesterov()
    optimizers.end_traces_after_steps()
