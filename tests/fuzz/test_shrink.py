"""The shrinker: what is left is what fails, and it is little."""

import torch

from fuzz.generate import generate
from fuzz.program import Program, load
from fuzz.script import script
from fuzz.shrink import Shrinker
from fuzz.simplify import simpler


def shrunk(statements, needs, **options):
    """For a fault that shows wherever all these words are."""
    program = Program(tuple(statements), **options)
    return Shrinker(lambda p: all(word in str(p) for word in needs)).shrink(program)


def test_statements_go():
    many = [f"v{i} = normal((3, 4), {i})" for i in range(20)]
    small = shrunk([*many, "v30 = torch.add(v3, v7)"], ["v3 =", "v7 =", "add"], turns=3, held=True)
    assert len(small.statements) == 3
    assert (small.turns, small.held) == (1, False)


def test_statements_become_simpler():
    statement = "v3 = torch.add(v1.view(3, 4)[1:].to(F64), v2, alpha=2.5)"
    small = shrunk([statement], ["add", "v1"])
    assert small.statements == ("torch.add(v1)",) or small.statements == ("v3 = torch.add(v1)",)


def test_blocks_open():
    block = "with torch.no_grad():\n    v1 = torch.ones(3)\n    v1.mul_(2)"
    assert ("v1 = torch.ones(3)", "v1.mul_(2)") in list(simpler(block))


def test_a_program_survives_its_file(tmp_path):
    program, _ = generate(0, 3)
    program.save(tmp_path / "one.json")
    assert load((tmp_path / "one.json").read_text()) == program


def test_programs_depend_on_their_number_alone():
    first = [generate(5, k)[0] for k in (1, 2)]
    again = [generate(5, k)[0] for k in (2, 1)]
    assert first == again[::-1]
    assert first[0] != first[1]


def test_scripts_run(monkeypatch):
    """As a test that passes on a device that is eager's own."""
    import differential

    monkeypatch.setattr(differential, "DEVICES", ("cpu", "cpu"))
    for k in range(12):
        program, _ = generate(3, k)
        names = {}
        text = script(program)
        try:
            exec(compile(text, f"<script {k}>", "exec"), names)
            names["test_program"]()
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            assert any_error(program), text
        assert isinstance(torch.get_rng_state(), torch.Tensor)


def any_error(program) -> bool:
    from fuzz.execute import execute
    from fuzz.scope import EAGER

    return bool(execute(program, EAGER).errors) or program.turns > 1
