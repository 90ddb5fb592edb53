"""The report's data: what it says of a program that is known."""

import base64
import gzip
import json
import re
from pathlib import Path

import models
import planted
import pytest
import torch
from torch_lazuli import report
from torch_lazuli.report.data import EVENT_KINDS, STEP_KINDS
from torch_lazuli.report.page import LIBRARIES, packed

STEPS = 10


@pytest.fixture(scope="module")
def images():
    with torch.lazuli.config.patch(tiers="plans"), torch.lazuli.report() as found:
        models.train_images(STEPS)
    return found.data


def planned(data):
    """The executable that ran most, whole."""
    return max((e for e in data["executables"] if e["planned"]), key=lambda e: sum(e["count"]))


def line_of(function, words: str, texts) -> int:
    code = function.__code__
    lines = Path(code.co_filename).read_text().splitlines()
    number = next(i for i in range(code.co_firstlineno, len(lines)) if words in lines[i]) + 1
    return texts.index(f"{code.co_filename}:{number}")


def test_it_is_json(images):
    assert json.loads(json.dumps(images, allow_nan=False)) == json.loads(json.dumps(images))
    unpacked = json.loads(gzip.decompress(base64.b64decode(packed(images))))
    assert unpacked["texts"] == images["texts"]


def test_numbers_of_texts_exist(images):
    count = len(images["texts"])
    numbers = [row[0] for row in images["lines"]] + [e["line"] for e in images["syncs"]]
    for executable in images["executables"]:
        nodes = executable["nodes"]
        numbers += nodes["op"] + nodes["type"] + nodes["line"] + executable["steps"]["name"]
    assert all(0 <= number < count for number in numbers)


def test_times_by_line(images):
    rows = {row[0]: row for row in images["lines"]}
    forward = rows[line_of(models.Block.forward, "torch.relu", images["texts"])]
    _, ops, recording, autograd, *_, running, waiting = forward
    assert ops >= 3 * 2 * STEPS
    assert recording > 0
    assert autograd > 0
    assert running > 0
    backward = rows[line_of(models.train, "loss.backward()", images["texts"])]
    assert backward[1] > 0
    # No moment is counted twice; on a GPU another thread runs traces.
    if images["device"] == "cpu":
        assert sum(sum(row[2:]) for row in images["lines"]) <= images["seconds"] * 1e6 * 1.05
        assert waiting == 0


def test_a_step_tells_what_was_fused(images):
    e = planned(images)
    texts, nodes, steps = images["texts"], e["nodes"], e["steps"]
    kernels = [
        [texts[nodes["op"][n]] for n in members]
        for kind, members in zip(steps["kind"], steps["nodes"], strict=True)
        if STEP_KINDS[kind] == "kernel"
    ]
    assert any(len(members) > 3 for members in kernels)
    ran = [i for i, count in enumerate(e["count"]) if count]
    assert {STEP_KINDS[steps["kind"][i]] for i in ran} >= {"kernel", "library"}
    for i in ran:
        assert e["count"][i] <= STEPS
        assert 0 <= e["least"][i] <= e["most"][i] <= e["total"][i] + 0.1
        assert steps["bytes"][i] > 0


def test_a_kernel_has_its_code(images):
    e = planned(images)
    nests = {number for number in e["steps"]["nest"] if number >= 0}
    assert nests
    for number in nests:
        nest = images["nests"][number]
        assert "load" in nest["nest"] or "store" in nest["nest"]
        assert "define" in nest["ll"]
        assert "ret" in nest.get("s", "") or ".entry" in nest.get("ptx", "")


def test_bytes_of_an_elementwise_kernel(device):
    with torch.lazuli.config.patch(tiers="plans"), torch.lazuli.report() as found:
        x = torch.randn(1000).to(device)
        (x.sin() + 1).cpu()
    e = planned(found.data)
    kernel = e["steps"]["kind"].index(STEP_KINDS.index("kernel"))
    assert e["steps"]["bytes"][kernel] == 2 * 4 * 1000


def test_inputs_come_before_what_reads_them(images):
    for executable in images["executables"]:
        for node, inputs in enumerate(executable["nodes"]["inputs"]):
            assert all(0 <= x < node for x in inputs)


def test_runs_and_their_launches(images):
    trace = max(images["traces"], key=lambda t: t["runs"])
    assert trace["runs"] in (STEPS - 1, STEPS)
    assert len(trace["kept"]) == 3
    ids = {e["id"]: e for e in images["executables"]}
    for run in trace["kept"]:
        assert len(run["where"]) == len(run["when"]) > 0
        for executable, step in zip(run["where"][::2], run["where"][1::2], strict=True):
            assert step < len(ids[executable]["count"])
        assert sum(run["when"][1::2]) <= run["us"] + 0.1 * len(run["when"])


def test_events_are_in_order_of_their_ends(images):
    events = images["events"]
    assert len({len(column) for column in events.values()}) == 1
    syncs = [
        (begin, reason)
        for kind, begin, reason in zip(
            events["kind"], events["begin"], events["reason"], strict=True
        )
        if EVENT_KINDS[kind] == "sync"
    ]
    assert sorted(syncs) == syncs
    steps = [r for _, r in syncs if images["reasons"][r] == "optimizer step"]
    assert len(steps) == STEPS


def test_memory_and_what_holds_it(images):
    memory = images["memory"]
    assert len(memory["at"]) == len(memory["live"]) > STEPS
    assert memory["peak"] == max(memory["live"])
    assert memory["peak_trace"] >= 0
    held = dict(map(tuple, memory["holders"]))
    step = line_of(models.train, "optimizer.step()", images["texts"])
    parameters = sum(p.numel() for p in models.Images().parameters())
    assert held[step] >= 3 * 4 * parameters  # parameters and both moments


def test_sources_and_scopes(images):
    assert images["sources"][models.__file__]["text"].startswith('"""Small trainings')
    line = line_of(models.Block.forward, "torch.relu", images["texts"])
    assert images["scopes"][line] == "Block.forward"


def test_why_a_trace_is_new(device):
    with torch.lazuli.report() as found:
        planted.number_in_a_shape()
    data = found.data
    new = [t["new"] for t in data["traces"] if t.get("new", {}).get("kind") == "number"]
    assert len(new) > planted.STEPS // 2
    line = data["texts"].index(f"{planted.__file__}:{planted.line_of(planted.number_in_a_shape)}")
    for one in new:
        assert (one["line"], one["line_before"]) == (line, line)
        assert int(one["now"][1:-1]) == int(one["before"][1:-1]) + 1
        assert 0 <= one["trace"] < len(data["traces"])


def test_external_calls_with_lines_and_cost(device):
    with torch.lazuli.report() as found:
        planted.op_without_a_row()
    data = found.data
    calls = [e for e in data["externals"] if "cdist" in e["what"]]
    line = f"{planted.__file__}:{planted.line_of(planted.op_without_a_row)}"
    assert [(data["texts"][e["line"]], e["count"]) for e in calls] == [(line, planted.STEPS)]
    assert calls[0]["us"] > 0
    assert data["advice"][0]["problem"] == "no kernel"
    assert found.advice[0].startswith(line)
    assert repr(found).startswith(f"advice: {line}")


def test_explain_takes_nothing_from_the_report(device):
    with torch.lazuli.report() as found:
        planted.item_for_logging()
        torch.lazuli.explain()
    assert found.data["advice"][0]["count"] == planted.STEPS


def test_parts_without_plans_are_described_too(device):
    if torch.ops.lazuli._backing().type != "cpu":
        pytest.skip("traces run in parts on the CPU only")
    with torch.lazuli.config.patch(unplanned="always"), torch.lazuli.report() as found:
        planted.clean()
    kinds = {STEP_KINDS[k] for e in found.data["executables"] for k in e["steps"]["kind"]}
    assert kinds == {"alone"}
    assert all(len(t["executables"]) >= 1 for t in found.data["traces"])


def test_results_are_the_same_while_it_watches(device):
    def run():
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 8).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(8):
            model(torch.ones(4, 8, device=device)).square().mean().backward()
            optimizer.step()
        return model.weight.cpu()

    run()
    before = run()
    with torch.lazuli.report():
        watched = run()
    assert torch.equal(before, watched)


def test_nothing_is_watched_after_the_end(device):
    with torch.lazuli.report() as found:
        (torch.ones(3, device=device) + 1).cpu()
    runs = sum(t["runs"] for t in found.data["traces"])
    (torch.ones(3, device=device) + 2).cpu()
    assert sum(t["runs"] for t in torch.ops.lazuli._report_take()["traces"]) == runs == 1


def test_data_before_the_end_is_an_error(device):
    with torch.lazuli.report() as found, pytest.raises(RuntimeError, match="has not ended yet"):
        _ = found.data


def test_start_and_write(device, tmp_path):
    report.start()
    (torch.ones(3, device=device) * 3).cpu()
    report.write(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert not re.search(r'(src|href)="(https?:)?//', text)


def test_a_block_that_raises_leaves_its_page(device, tmp_path):
    path = tmp_path / "report.html"
    with pytest.raises(IndexError), torch.lazuli.report(path):
        torch.ones(3, device=device)[7]
    assert path.exists()


def test_a_notebook_displays_it(device):
    with torch.lazuli.report() as found:
        (torch.ones(3, device=device) * 5).cpu()
    assert found._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')


def test_a_missing_library_is_named(device, monkeypatch, tmp_path):
    from torch_lazuli.report import page

    with torch.lazuli.report() as found:
        (torch.ones(3, device=device) * 6).cpu()
    monkeypatch.setattr(page, "_HERE", tmp_path)
    with pytest.raises(FileNotFoundError, match=f"{LIBRARIES[0]} is not there; run tools/page_lib"):
        found.html()


def test_a_block_whose_work_fails_is_reported_and_ends(tmp_path):
    """An error that comes when pending work is computed is raised; nothing is watched after it."""
    page = tmp_path / "page.html"
    report = torch.lazuli.report(page)
    seen = report.__enter__()
    kept = torch.ones(2, device="lazuli")[torch.tensor([7]).to("lazuli")]
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        report.__exit__(None, None, None)
    del kept
    assert seen.data["texts"]
    assert page.exists()
    with torch.lazuli.report() as another:
        (torch.ones(4, device="lazuli") + 1).sum().item()
    assert another.data["texts"]


def test_a_page_that_cannot_be_written_is_an_error_before_the_block(tmp_path, device):
    written_to = torch.lazuli.report(tmp_path / "nowhere" / "page.html")
    with pytest.raises(NotADirectoryError, match="nowhere"), written_to:
        pytest.fail("the block runs")
