"""What a program's take-over replaces in torch without torch's promise: names and who calls them.

See backend/python/torch_lazuli/takeover. If torch stops using one of these, what is replaced there
does nothing any more, and programs that name other devices run elsewhere.
"""

import inspect

import torch
from torch.utils import _device, data
from torch.utils.data import dataloader
from torch.utils.data._utils import fetch, worker


def test_contexts_of_a_device_are_made_in_python():
    with torch.device("cpu"):
        (mode,) = torch.overrides._get_current_function_mode_stack()
        assert isinstance(mode, _device.DeviceContext)
        assert torch._C._len_torch_function_stack() == 1
    assert torch.zeros in _device._device_constructors()


def test_loaders_fetch_and_yield_by_these_methods():
    assert "fetch" in vars(fetch._MapDatasetFetcher)
    assert "fetch" in vars(fetch._IterableDatasetFetcher)
    assert "_utils.worker._worker_loop" in inspect.getsource(dataloader)
    loader = iter(data.DataLoader([torch.ones(1)]))
    assert isinstance(loader, dataloader._BaseDataLoaderIter)
    assert "__next__" not in vars(type(loader))
    assert worker._worker_loop.__module__ == worker.__name__


def test_places_of_storages_are_asked_in_order(monkeypatch):
    registry = torch.serialization._package_registry
    monkeypatch.setattr(torch.serialization, "_package_registry", list(registry))
    torch.serialization.register_package(5, lambda storage: "mars", lambda storage, place: None)
    assert torch.serialization.location_tag(torch.ones(1).untyped_storage()) == "mars"


def test_modules_move_tensors_by_their_methods(monkeypatch):
    seen = []
    original = torch.Tensor.to
    monkeypatch.setattr(torch.Tensor, "to", lambda *a, **k: (seen.append(1), original(*a, **k))[1])
    torch.nn.Linear(2, 2).to("cpu")
    assert len(seen) == 2


def test_data_parallel_and_printing_look_at_these_names():
    assert callable(torch.nn.DataParallel.scatter)
    assert "self.device" in inspect.getsource(torch._tensor_str._str_intern)
    assert "src_device_obj" in inspect.getsource(torch.nn.DataParallel.forward)


def test_functions_of_torch_accelerator_number_devices_by_one_function(spy):
    accelerator = torch.accelerator
    calls = [spy(m, "_get_device_index") for m in (accelerator, accelerator.memory)]
    index = torch.device("lazuli", 0)
    accelerator.synchronize(index)
    accelerator.memory_allocated(index)
    assert all(calls), "torch.accelerator and its memory module must ask this by that name"
    assert all(asked[0][0] == (index,) or asked[0][1] for asked in calls)


def test_states_of_optimizers_are_moved_by_one_method(spy):
    calls = spy(torch.optim.Optimizer, "_process_value_according_to_param_policy")
    parameter = torch.ones(2, requires_grad=True)
    parameter.grad = torch.ones(2)
    optimizer = torch.optim.Adam([parameter])
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls, "Optimizer.load_state_dict must move values by this method"


def test_functions_of_a_program_go_backward_by_this_method(monkeypatch):
    kind = torch.autograd.function.BackwardCFunction
    seen, original = [], kind.apply
    monkeypatch.setattr(kind, "apply", lambda *a: (seen.append(a[0].kept), original(*a))[1])

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, gradient):
            return 2 * gradient

    x = torch.ones(1, requires_grad=True)
    y = Double.apply(x)
    y.grad_fn.kept = "what is put there in forward"
    y.backward()
    assert seen == ["what is put there in forward"]
    assert x.grad == 2
