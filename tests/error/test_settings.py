"""Settings that turn surprises into errors, and errors in settings."""

import os
import subprocess
import sys
import warnings

import pytest
import torch


def test_external_calls_can_be_forbidden():
    x = torch.randn(4, 4).to("lazuli")
    with torch.lazuli.config.patch(fallback="error"):
        assert (x + 1).relu().sum().isfinite().item()
        with pytest.raises(RuntimeError) as error:
            torch.cdist(x, x)
    assert "cdist" in str(error.value)
    assert "test_settings.py" in str(error.value)
    assert torch.cdist(x, x).shape == (4, 4)


@pytest.mark.parametrize("layout", ["sparse", "quantized", "nested"])
def test_kernels_of_the_host_are_counted_and_can_be_forbidden(layout, counters):
    x = torch.randn(4, 4)
    if layout == "sparse":
        t = x.to_sparse().to("lazuli")
        work, name = lambda: torch.sparse.softmax(t, 0), "softmax"
    elif layout == "quantized":
        t = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).to("lazuli")
        work, name = t.dequantize, "dequantize"
    else:
        t = torch.nested.nested_tensor([x, x[:2]]).to("lazuli")
        work, name = lambda: t.softmax(-1), "softmax"
    work()
    assert any(name in op for op in counters()["external_calls"])
    with torch.lazuli.config.patch(fallback="error"), pytest.raises(RuntimeError) as error:
        work()
    assert name in str(error.value)
    assert "on the host" in str(error.value)


def warnings_of(work):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [str(w.message) for w in caught if "external call" in str(w.message)]


def test_external_calls_can_be_warned_of():
    """Once for each operator and line, which the warning names."""
    x = torch.randn(4, 4).to("lazuli")

    def work():
        torch.cdist(x, x)
        x.renorm(2, 0, 1.0)

    with torch.lazuli.config.patch(fallback="warn"):
        first, second = warnings_of(work), warnings_of(work)
    assert [name in text for name, text in zip(("cdist", "renorm"), first, strict=True)] == [
        True
    ] * 2
    assert all("test_settings.py:" in text for text in first)
    assert second == []


def test_external_calls_are_quiet_by_default():
    assert torch.lazuli.config.fallback == "quiet"
    x = torch.randn(4, 4).to("lazuli")
    assert warnings_of(lambda: torch.cdist(x, x)) == []


@pytest.mark.parametrize("mode", ["error", "warn", "quiet"])
def test_the_environment_says_what_external_calls_do(mode):
    script = "import torch; x = torch.ones(2, 2, device='lazuli'); print(torch.cdist(x, x).sum())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "LAZULI_FALLBACK": mode},
        capture_output=True,
        text=True,
        timeout=120,
    )
    told = "cdist_forward has no kernel of its own" in done.stderr
    assert (done.returncode == 0, told) == (mode != "error", mode != "quiet")


def test_views_are_no_external_calls():
    x = torch.randn(4, 4).to("lazuli")
    with torch.lazuli.config.patch(fallback="error"):
        y = x.t()[1:].unfold(0, 2, 1).diagonal(0, 1, 2).unsqueeze(0)
    assert y.dim() == 3


def test_a_setting_that_does_not_exist():
    with pytest.raises(AttributeError, match="no setting 'fusoin'; did you mean 'fusion'"):
        torch.lazuli.config.fusoin = True


def test_a_value_that_does_not_fit():
    with pytest.raises(ValueError, match="'fallback' takes quiet, warn or error, not sometimes"):
        torch.lazuli.config.fallback = "sometimes"
    assert torch.lazuli.config.fallback in ("quiet", "warn", "error")
    with pytest.raises(ValueError, match="'random' takes philox or eager, not mt19937"):
        torch.lazuli.config.random = "mt19937"
    with pytest.raises(ValueError, match="'max_traces' takes an integer from 4 on, not 3"):
        torch.lazuli.config.max_traces = 3


@pytest.mark.parametrize(
    ("backing", "message"),
    [
        ("abacus", "LAZULI_BACKING takes cpu or cuda, not abacus"),
        pytest.param(
            "cuda",
            "LAZULI_BACKING=cuda, but torch finds no CUDA device here",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is one"),
        ),
    ],
)
def test_a_backing_device_that_is_not_here(backing, message):
    done = subprocess.run(
        [sys.executable, "-c", "import torch; torch.ones(2, device='lazuli').sum().item()"],
        env={**os.environ, "LAZULI_BACKING": backing},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize("name", ["kernels", "light_autograd"])
def test_what_is_read_at_first_use_cannot_be_changed(name):
    now = getattr(torch.lazuli.config, name)
    setattr(torch.lazuli.config, name, now)
    other = {"lazuli": "eager", "eager": "lazuli"}.get(now, not now)
    with pytest.raises(ValueError, match=f"LAZULI_{name.upper()} before"):
        setattr(torch.lazuli.config, name, other)
    assert getattr(torch.lazuli.config, name) == now
