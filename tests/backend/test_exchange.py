"""Tensors that go to other libraries and come from them: DLPack, and files of safetensors."""

import numpy
import pytest
import torch


def operands():
    x = torch.arange(24.0).reshape(2, 3, 4)
    return {
        "dense": x,
        "transposed": x.transpose(0, 2),
        "a window": x[:, 1:, ::2],
        "integers": x.to(torch.int64),
        "booleans": x > 5,
        "complex": torch.complex(x, x),
        "one number": x[1, 2, 3],
        "nothing": x[:0],
    }


@pytest.mark.parametrize("name", operands())
def test_numpy_gets_the_numbers(device, name):
    expected = operands()[name]
    moved = expected.to(device) if expected.is_contiguous() else None
    given = moved if moved is not None else window(name, device)
    array = numpy.from_dlpack(given)
    assert array.shape == tuple(expected.shape)
    numpy.testing.assert_array_equal(array, expected.numpy())


def window(name, device):
    x = torch.arange(24.0).reshape(2, 3, 4).to(device)
    return x.transpose(0, 2) if name == "transposed" else x[:, 1:, ::2]


def test_memory_is_shared_with_numpy(device):
    x = torch.zeros(5, device=device)
    array = numpy.from_dlpack(x)
    x += 2
    assert array.tolist() == [2] * 5
    torch.from_dlpack(x)[1] = 7
    assert array.tolist() == [2, 7, 2, 2, 2]


def test_a_copy_where_it_is_asked_for(device):
    x = torch.zeros(5, device=device)
    array = numpy.from_dlpack(x, copy=True)
    again = torch.from_dlpack(x, copy=True)
    x += 2
    assert array.tolist() == again.tolist() == [0] * 5


def test_torch_gets_a_tensor_of_the_device(device):
    x = torch.arange(6.0, device=device).reshape(2, 3)
    y = torch.from_dlpack(x.t())
    assert (y.device, y.stride()) == (x.device, (1, 3))
    y[0] = 9
    assert x.tolist() == [[9, 1, 2], [9, 4, 5]]
    assert torch.from_dlpack(x, device="cpu").device.type == "cpu"
    assert torch.from_dlpack(numpy.ones(3), device=device).device.type == device
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(x, device="cpu", copy=False)


def test_errors_are_eagers(device):
    for where in ("cpu", device):
        leaf = torch.ones(2, device=where, requires_grad=True)
        for take in (numpy.from_dlpack, torch.from_dlpack):
            with pytest.raises(BufferError, match="require gradient"):
                take(leaf)


def test_the_memory_lives_as_long_as_the_array(device):
    array = numpy.from_dlpack(torch.arange(1000.0, device=device) + 1)
    for _ in range(5):
        torch.zeros(1000, device=device).add(3).sum().item()
    assert array.sum() == 500500


@pytest.fixture
def file(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    tensors = {"a": torch.randn(3, 4), "b": torch.arange(5), "c": torch.randn(2).bfloat16()}
    safetensors.save_file(tensors, tmp_path / "file.safetensors")
    return tmp_path / "file.safetensors", tensors


@pytest.mark.parametrize("where", ["lazuli", "lazuli:0", torch.device("lazuli")])
def test_safetensors_are_loaded_to_the_device(file, where):
    from safetensors.torch import load_file

    path, expected = file
    loaded = load_file(path, device=where)
    assert loaded.keys() == expected.keys()
    for name, tensor in loaded.items():
        assert tensor.device == torch.device("lazuli", 0)
        assert torch.equal(tensor.cpu(), expected[name])
    assert load_file(path)["a"].device.type == "cpu"


def test_parts_of_safetensors_and_models(file, device, tmp_path):
    import safetensors
    from safetensors.torch import load_model, save_file, save_model

    path, expected = file
    with safetensors.safe_open(path, "pt", device=device) as opened:
        assert set(opened.keys()) == set(expected)
        assert torch.equal(opened.get_tensor("b").cpu(), expected["b"])
        part = opened.get_slice("a")
        assert part.get_shape() == [3, 4]
        assert part[:, 1:3].device.type == device
        assert torch.equal(part[:, 1:3].cpu(), expected["a"][:, 1:3])
    model, other = (torch.nn.Linear(2, 3).to(device) for _ in range(2))
    save_model(model, tmp_path / "model.safetensors")
    load_model(other, tmp_path / "model.safetensors", device=device)
    assert torch.equal(model.weight.cpu(), other.weight.cpu())
    save_file({"w": model.weight}, tmp_path / "w.safetensors")


def test_safetensors_first(file):
    """The device is known to it although nothing has used the device yet."""
    import subprocess
    import sys

    path, _ = file
    code = (
        "import safetensors.torch\n"
        f"print(safetensors.torch.load_file({str(path)!r}, device='lazuli')['b'].sum().item())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "10", done.stderr
