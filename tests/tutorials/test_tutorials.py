"""The parts of tools/tutorials that need no network: its list, its comparison, its data."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import comparing
import data
import listing
import results
import running
import sources


def test_the_list_is_well_formed():
    found = listing.programs()
    assert len(found) >= 60
    assert len({program.package for program in found}) >= 20
    for program in found:
        assert set(program.beside.values()) <= set(data.SETS), program.name
        assert not Path(program.path).is_absolute()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('{path = "a.py", field = "x", wrong = 1}', "wrong"),
        ('{path = "a.py", field = "x", compare = "kind"}', "says why"),
        ('{path = "a.py", field = "x", compare = "looks"}', "compare is"),
        ('{path = "a.py", field = "x", ignore = ["("]}', "'\\('"),
        ('{path = "a.py", field = "x"}, {path = "a.py", field = "x"}', "listed twice"),
    ],
)
def test_a_wrong_entry_is_an_error(entry, message):
    text = f'[package]\nversion = "1"\nprograms = [{entry}]'
    with pytest.raises(listing.ListError, match=message):
        listing.programs(text)


def test_commands():
    text = """[package]
version = "1"
field = "x"
programs = [
  {path = "a/b.py", arguments = ["--n", "1"]},
  {path = "a/c.py", module = true},
  {path = "d.ipynb"},
]"""
    script, module, notebook = (p.command(Path("/s")) for p in listing.programs(text))
    assert script == ["/s/a/b.py", "--n", "1"]
    assert module == ["-m", "a.c"]
    assert notebook[:2] == ["-m", "IPython"]
    assert notebook[-1] == "/s/d.ipynb"


@pytest.mark.parametrize(
    ("expected", "actual", "apart"),
    [
        ("loss 1.50", "loss 1.50", 0),
        ("loss 1.50", "loss 1.51", 0),  # one in the last digit
        ("loss 1.50", "loss 1.80", 0.3 / 1.8),
        ("epoch 9", "epoch 10", 0.1),  # integers are exact
        ("[1.25 2.5 ]", "[1.25 2.50]", 0),  # alignment
        ("loss nan", "loss nan", 0),
        ("loss nan", "loss 1.0", float("inf")),
        ("loss 1.0", "error 1.0", float("inf")),
        ("1e-9", "-1e-9", 2e-4),  # of no size
    ],
)
def test_differences_of_lines(expected, actual, apart):
    assert comparing.difference([expected], [actual]) == pytest.approx(apart)


def test_lines_that_vary_are_left_out():
    text = "a 1\rb 2\n\nepoch took 3.2\n2026-01-02 10:00\nmodel.pt\nTrained in 3.1s\n"
    assert comparing.lines(text, (r".*\.pt$",)) == ["b 2", "Trained in"]


def test_of_one_kind():
    assert comparing.of_one_kind(["reward 1", "reward 2", "end"], ["reward 5", "end"])
    assert not comparing.of_one_kind(["reward 1"], ["error"])


def ended(output: str, status: int = 0, operations: int = 1) -> running.Run:
    return running.Run(status, output, "Traceback:\n  line\nTypeError: x\n", 1.0, operations)


def test_verdicts():
    (program,) = listing.programs(
        '[p]\nversion = "1"\nfield = "x"\nprograms = [{path = "a.py", tolerance = 0.1}]'
    )
    plain = ended("loss 1.000\n")

    def verdict(launched, disturbed=None):
        return running.judged(program, plain, launched, disturbed).verdict

    assert verdict(ended("loss 1.050\n")) == running.SAME
    assert verdict(ended("loss 2.000\n")) == running.DIFFERS
    assert verdict(ended("loss 2.000\n"), ended("loss 1.001\n")) == running.DIFFERS
    assert verdict(ended("loss 2.000\n"), ended("loss 3.000\n")) == running.ROUNDING
    assert verdict(ended("other\n"), ended("loss 1.000\nloss 1.000\n")) == running.DIFFERS
    assert verdict(ended("loss 1.000\n", operations=0)) == running.UNUSED
    failed = running.judged(program, plain, ended("", status=1))
    assert (failed.verdict, failed.detail) == (running.FAILS, "TypeError: x")


def test_a_program_is_run_both_ways(tmp_path):
    (program,) = listing.programs(
        '[p]\nversion = "1"\nfield = "x"\nprograms = [{path = "a.py", arguments = ["3"]}]'
    )
    (tmp_path / "a.py").write_text(
        "import sys, torch\nx = torch.rand(int(sys.argv[1]))\nprint((x @ x).item())\n"
    )
    result = running.outcome(program, tmp_path, tmp_path / "work")
    assert result.verdict == running.SAME, result
    assert result.launched.operations > 0
    results.add(tmp_path / "kept", {program.name: result}, [program])
    page = (tmp_path / "kept" / "tutorials.md").read_text()
    assert "1 programs of 1 packages: 1 run as without" in page
    assert "| `a.py` | `3` | x | same | 1 lines, 1 numbers |" in page


def test_disturbed_parameters_differ_in_their_last_digit(tmp_path):
    (program,) = listing.programs('[p]\nversion = "1"\nfield = "x"\nprograms = [{path = "a.py"}]')
    (tmp_path / "a.py").write_text(
        "import torch\nw = torch.nn.Parameter(torch.ones(8))\n"
        "optimizer = torch.optim.SGD([w], lr=0.0)\nw.sum().backward()\noptimizer.step()\n"
        "print(0 < (w - 1).abs().max().item() < 1e-6)\n"
    )
    run = running._run
    assert run(program, tmp_path, tmp_path / "w", launched=False).output == "False\n"
    disturbed = run(program, tmp_path, tmp_path / "w", launched=False, TUTORIALS_DISTURBED="1")
    assert disturbed.output == "True\n"


def test_rounding_is_looked_for_more_than_once(tmp_path, monkeypatch):
    (program,) = listing.programs('[p]\nversion = "1"\nfield = "x"\nprograms = [{path = "a.py"}]')
    losses = {"plain": 1.0, "launched": 2.0, "disturbed-1": 1.001, "disturbed-2": 1.8}
    asked = []

    def run(program, sources, folder, launched, **variables):
        asked.append(folder.name)
        return ended(f"loss {losses.get(folder.name, 1.0)}\n")

    monkeypatch.setattr(running, "_run", run)
    assert running.outcome(program, tmp_path, tmp_path).verdict == running.ROUNDING
    assert asked == list(losses)
    losses["disturbed-2"] = 1.001
    assert running.outcome(program, tmp_path, tmp_path).verdict == running.DIFFERS


@pytest.mark.parametrize("name", ["mnist", "fashion", "emnist"])
def test_data_is_what_torchvision_reads(name, tmp_path):
    datasets = pytest.importorskip("torchvision").datasets
    data.put(name, tmp_path)
    kind, more = {
        "mnist": (datasets.MNIST, {}),
        "fashion": (datasets.FashionMNIST, {}),
        "emnist": (datasets.EMNIST, {"split": "balanced"}),
    }[name]
    for train, count in ((True, 1280), (False, 320)):
        found = kind(tmp_path, train=train, download=True, **more)
        image, label = found[0]
        assert (len(found), image.size) == (count, (28, 28))
        assert 0 <= label < 10


def test_names_of_source_distributions():
    assert sources.is_source_of("pyro_ppl-1.9.2.tar.gz", "pyro-ppl", "1.9.2")
    assert not sources.is_source_of("pyro_ppl-1.9.20.tar.gz", "pyro-ppl", "1.9.2")
    assert not sources.is_source_of("pyro_ppl-1.9.2-py3-none-any.whl", "pyro-ppl", "1.9.2")
