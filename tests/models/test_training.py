"""Well-known models train as on cpu: ten AdamW steps, and nothing is compiled after the third."""

import pytest
import torch
from small_models import MODELS, STEPS, build, train


@pytest.mark.parametrize("name", MODELS)
def test_losses_follow_cpu(name, device):
    """In double precision: in ten steps eager's own losses move by up to 7e-5 of theirs."""
    _, expected = train(name, "cpu", dtype=torch.float64)
    _, actual = train(name, device)
    assert expected[-1] < expected[0]
    torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected), rtol=1e-4, atol=0)


@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": True}], ids=str)
def test_losses_follow_cpu_with_other_optimizer_kernels(options, device):
    _, expected = train("bert", "cpu")
    _, actual = train("bert", device, options=options)
    torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected), rtol=1e-4, atol=0)


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_compiled_after_the_third_step(name, counters, device, planned_at_once):
    seen = []
    train(name, device, lambda step: seen.append(counters()))
    for kind in ("traces_compiled", "kernels_compiled"):
        counts = [metrics[kind] for metrics in seen]
        assert counts[3:] == [counts[2]] * (STEPS - 3), (kind, counts)
    assert seen[-1]["traces_reused"] > seen[2]["traces_reused"]


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_external_in_a_steady_step(name, counters, device):
    def forget_the_first_steps(step):
        if step == STEPS - 2:
            torch.lazuli.reset_metrics()

    train(name, device, forget_the_first_steps)
    assert not counters()["external_calls"]


@pytest.mark.parametrize("name", MODELS)
def test_one_step_is_one_or_two_syncs(name, counters, device):
    def forget_the_first_steps(step):
        if step == STEPS - 2:
            torch.lazuli.reset_metrics()

    train(name, device, forget_the_first_steps)
    assert sum(counters()["syncs"].values()) <= 2, counters()["syncs"]


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_the_first_step(name, device):
    gradients = {}
    for where in ("cpu", device):
        model, batch = build(name, where)
        model(**batch).backward()
        gradients[where] = {n: p.grad for n, p in model.named_parameters()}
    for n, expected in gradients["cpu"].items():
        actual = gradients[device][n]
        assert (actual is None) == (expected is None), n
        if expected is not None:
            scale = expected.abs().max().item()
            torch.testing.assert_close(
                actual.cpu(),
                expected,
                rtol=1e-3,
                atol=1e-4 * scale + 1e-7,
                msg=lambda t, n=n: f"{n}: {t}",
            )


@pytest.mark.parametrize("name", MODELS)
def test_inference_follows_cpu(name, device):
    losses = []
    for where in ("cpu", device):
        model, batch = build(name, where)
        model.eval()
        with torch.no_grad():
            losses.append(model(**batch).item())
    assert abs(losses[1] - losses[0]) <= 1e-4 * abs(losses[0])
