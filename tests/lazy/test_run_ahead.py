"""Parts of a new trace are worked on while it is recorded, and nobody can tell but by the clock."""

import os
import threading

import pytest
import torch
from differential import assert_same, normal
from torch import nn
from torch.nn import functional as F

LAYERS = 6


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["on", "all"])
def run_ahead(request, two_threads):
    with torch.lazuli.config.patch(run_ahead=request.param):
        yield request.param


def network(device, width=16):
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(LAYERS)]
    return nn.Sequential(*blocks).to(device)


def bits_under(setting, run):
    """What `run` gives where parts are, or are not, run ahead."""
    with torch.lazuli.config.patch(run_ahead=setting, tiers="parts", unplanned="never"):
        return run()


def check_bits(run):
    """Whether parts run ahead, and how far that comes, changes none."""
    want = bits_under("off", run)
    for setting in ("all", "on", "all"):
        for got, expected in zip(bits_under(setting, run), want, strict=True):
            assert torch.equal(got, expected), setting


def decode(device="lazuli", steps=12, width=8):
    """Attention over a cache that grows by a row each step."""
    torch.manual_seed(0)
    query, key, value, out = (normal(width, width, device=device) for _ in range(4))
    x, keys, values, seen = normal(1, width, device=device), None, None, []
    for _ in range(steps):
        for _ in range(3):
            k, v = x @ key, x @ value
            keys = k if keys is None else torch.cat([keys, k])
            values = v if values is None else torch.cat([values, v])
            weights = F.softmax(x @ query @ keys.t(), -1)
            x = torch.tanh(weights @ values @ out + x)
        seen.append(x.cpu())
    return seen


def train(device="lazuli", sizes=(5, 9, 12, 7, 30, 1)):
    model = network(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for size in sizes:
        optimizer.zero_grad()
        loss = model(normal(size, 16, device=device)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *model.parameters()]


@pytest.mark.parametrize("program", [decode, train])
def test_the_same_bits(program, two_threads):
    check_bits(program)


def test_bits_do_not_depend_on_threads(two_threads):
    def run():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(1500, 1100), nn.GELU(), nn.Linear(1100, 30)).to("lazuli")
        rows = (1, 2, 3, 40, 130)
        return [model(normal(n, 1500, device="lazuli")).cpu() for n in rows]

    with torch.lazuli.config.patch(tiers="parts"), torch.no_grad():
        together = run()
        torch.set_num_threads(1)
        for got, want in zip(run(), together, strict=True):
            assert torch.equal(got, want)


@pytest.mark.parametrize("program", [decode, train])
def test_as_eager(program, run_ahead):
    assert_same(program, rtol=1e-4, atol=1e-5)


def test_parts_run_while_recording(counters):
    with torch.lazuli.config.patch(run_ahead="all"):
        decode(width=12)  # which is new
    assert counters()["parts_ahead"] > 10
    assert "run while recording" in str(torch.lazuli.explain())


def test_none_runs_where_it_is_off(counters):
    with torch.lazuli.config.patch(run_ahead="off"):
        decode(width=20)
    assert counters()["parts_ahead"] == 0


def test_an_error_comes_where_it_would(run_ahead):
    table = normal(4, 16, device="lazuli")
    model = network("lazuli")
    for rows in range(1, 9):
        index = torch.full((rows,), 9 if rows == 6 else 1, device="lazuli")
        out = model(table[index])
        if rows == 6:
            with pytest.raises(IndexError, match=r"out of (bounds|range)"):
                out.cpu()
        else:
            out.cpu()


def test_inputs_stay_as_they_are(run_ahead):
    model = network("lazuli")
    for rows in range(1, 9):
        x = normal(rows, 16, device="lazuli")
        before = x.clone()
        y = model(x)
        x.mul_(2)
        assert torch.equal(x.cpu(), before.cpu() * 2)
        torch.testing.assert_close(y.cpu(), model(before).cpu())


def test_a_read_in_the_middle(run_ahead):
    def run(device):
        model, seen = network(device), []
        for rows in range(1, 9):
            x = normal(rows, 16, device=device)
            for i, block in enumerate(model):
                x = block(x)
                if i == rows % LAYERS:
                    seen.append(x.detach().cpu())
            seen.append(x.detach())
        return seen

    assert_same(run, rtol=1e-4, atol=1e-5)


def test_threads(run_ahead):
    models, results = [network("lazuli") for _ in range(4)], {}
    batches = [normal(n, 16, device="lazuli") for n in range(1, 9)]

    def run(number):
        results[number] = [models[number](x).cpu() for x in batches]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for number in range(1, 4):
        for got, want in zip(results[number], results[0], strict=True):
            torch.testing.assert_close(got, want)


def test_a_process_forked_meanwhile(run_ahead):
    model = network("lazuli")
    for rows in range(1, 7):
        model(normal(rows, 16, device="lazuli")).cpu()
    x = normal(7, 16, device="lazuli")
    y = model(x)  # recorded, and perhaps worked on
    child = os.fork()
    if child == 0:
        fine = torch.isfinite(y.cpu()).all() and torch.isfinite(model(x[:3]).cpu()).all()
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.isfinite(y.cpu()).all()


def cached_decoding(device, steps=20, forget=0):
    """Attention over caches too large to be copied ahead, to which each step appends; every so
    many steps it goes back to what a cache was a while ago, and goes on otherwise."""
    torch.manual_seed(0)
    layers = [[normal(16, 16, device=device) / 4 for _ in range(3)] for _ in range(3)]
    caches = [(normal(1500, 16, device=device),) * 2 for _ in layers]
    x, seen, before = normal(1, 16, device=device), [], caches
    for step in range(steps):
        for i, (query, key, value) in enumerate(layers):
            keys, values = (
                torch.cat([c, x @ w]) for c, w in zip(caches[i], (key, value), strict=True)
            )
            caches = [*caches[:i], (keys, values), *caches[i + 1 :]]
            x = torch.tanh(F.softmax(x @ query @ keys.t(), -1) @ values + x)
        seen.append(x.cpu())
        if forget and step % forget == 2:
            caches, before = before, caches
            x = x * 0.5
    return [*seen, *(t for pair in caches for t in pair)]


@pytest.fixture
def appending():
    with torch.no_grad(), torch.lazuli.config.patch(append_in_place="always"):
        yield


@pytest.mark.parametrize("forget", [0, 3, 4])
def test_caches_grow_ahead(forget, two_threads, appending, counters):
    check_bits(lambda: cached_decoding("lazuli", forget=forget))
    found = counters()
    assert found["appends_in_place"] > 140
    assert found["parts_ahead"] > 200  # most of three runs of twenty steps, seven parts or so each


@pytest.mark.parametrize("forget", [0, 3])
def test_caches_that_grow_ahead_as_eager(forget, run_ahead, appending):
    assert_same(lambda device: cached_decoding(device, forget=forget), rtol=1e-4, atol=1e-5)


def test_one_cache_grows_in_several_ways(run_ahead, appending):
    """What was put behind it once is not what is put there the next time, nor what a library has
    packed of it."""

    def run(device):
        cache, x = normal(300, 64, device=device), normal(40, 64, device=device)
        for _ in range(4):
            cache = torch.cat([cache, x[:1]])
            cache.sum().item()
        seen = []
        for i in range(12):
            one, other = torch.cat([cache, x[:2] * i]), torch.cat([cache, x[2:4] + i])
            seen += [(x @ one.t()).cpu(), (x @ other.t()).cpu()]
            one = torch.cat([cache, x[:2] - i])
            seen.append((x @ one.t()).cpu())
        return [*seen, cache]

    assert_same(run, rtol=1e-4, atol=1e-4)


READERS = {
    "sorted": lambda cache: torch.sort(cache, 0)[0],
    "multiplied": lambda cache: cache.t() @ cache,
    "copied": lambda cache: cache.clone(),
    "kept": lambda cache: cache,
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("times", [1, 0.2])
def test_a_cache_that_is_written_to_after_it_was_read(reader, times, two_threads, appending):
    """What is written is not put behind the cache, though that fills its memory, or nearly so."""

    def run():
        torch.manual_seed(0)
        weights = [normal(16, 16, device="lazuli") / 4 for _ in range(3)]
        more, seen = int(1600 * times), []
        for step in range(9):
            cache = torch.cat([normal(n, 16, device="lazuli") for n in (1500, 200)])
            cache.sum().item()
            if step % 2:
                cache = torch.cat([cache, normal(more, 16, device="lazuli")])
                cache.sum().item()
            x = normal(100, 16, device="lazuli")
            x = torch.tanh(x @ weights[0])
            before = reader(cache) if step > 5 else None
            x = torch.tanh(x @ weights[1])
            if not step % 2:
                cache = torch.cat([cache, (x @ weights[2]).repeat(16, 1)[:more]])
            cache[0] = x[0]
            for weight in weights * 4:
                x = torch.tanh(x @ weight)
            seen += [x.cpu(), cache.cpu(), *([] if before is None else [before.cpu()])]
        return seen

    check_bits(run)
