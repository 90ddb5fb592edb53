"""Settings that turn surprises into errors, and errors in settings."""

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
