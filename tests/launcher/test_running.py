"""What a program has without the launcher it has with it: arguments, exit code, signals."""

import os
import signal
import subprocess
import sys

import pytest
from programs import environment, output, run

SHOW = """
import sys
print(sys.argv, sys.path[0], __name__, __package__, sys.flags.dev_mode, sys.orig_argv[1:])
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(SHOW)
    return path


def both(*command, cwd):
    return [run(*command, launched=launched, cwd=cwd) for launched in (False, True)]


def test_a_script_sees_its_own_arguments_and_path(script):
    plain, launched = both(script, "--from", "x", "-m", cwd=script.parent)
    assert launched.stdout == plain.stdout
    assert launched.stdout


def test_a_module_and_code(script):
    for command in (("-m", "program", "--keep", "y"), ("-c", SHOW, "z")):
        plain, launched = both(*command, cwd=script.parent)
        assert launched.stdout == plain.stdout
        assert launched.stdout


def test_options_of_the_interpreter_are_kept(script):
    command = [sys.executable, "-X", "dev", "-m", "torch_lazuli", "--keep", "cpu", script, "a"]
    text = subprocess.run(command, capture_output=True, text=True, env=environment()).stdout
    plain = subprocess.run(
        [sys.executable, "-X", "dev", script, "a"], capture_output=True, text=True
    ).stdout
    assert text == plain
    assert "True" in text


def test_an_error_has_eagers_traceback_and_exit_code(script):
    script.write_text("import torch\ndef f():\n    raise ValueError('x')\nf()\n")
    plain, launched = both(script, cwd=script.parent)
    assert launched.stderr == plain.stderr
    assert launched.returncode == plain.returncode == 1


def test_the_exit_code_is_the_programs(script):
    script.write_text(
        "import sys, torch; sys.exit(torch.ones(7, device='cuda').sum().int().item())"
    )
    assert run(script).returncode == 7


def test_an_interrupt_ends_the_program_as_without(script):
    script.write_text(
        "import os, signal, torch\ntorch.ones(3, device='cuda').sum().item()\n"
        # What runs in the background of a shell inherits that interrupts are ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt:\n    print('caught')\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
    )
    done = run(script)
    assert done.stdout == "caught\n"
    assert done.returncode == -signal.SIGINT
    assert "torch_lazuli" not in done.stderr


def test_the_debugger_debugs_the_program(script):
    script.write_text("import torch\nx = torch.ones(3).cuda()\nprint(x.device)\n")
    done = subprocess.run(
        [sys.executable, "-m", "torch_lazuli", "-m", "pdb", script],
        input="n\nn\np x.is_cuda\nw\nc\nq\n",
        capture_output=True,
        text=True,
        env=environment(),
        timeout=100,
    )
    assert "True" in done.stdout
    assert "cuda:0" in done.stdout
    assert "torch_lazuli" not in done.stdout


def test_a_profiler_profiles_the_program(script):
    script.write_text(
        "import torch\ndef work():\n    return torch.ones(3).cuda().sum().item()\nwork()\n"
    )
    text = output("-m", "cProfile", script)
    assert "program.py:2(work)" in text


def test_child_processes_are_taken_over(script):
    script.write_text(
        "import subprocess, sys, torch\n"
        "import torch.multiprocessing as mp\n"
        "def child(rank):\n    print('spawned', torch.ones(2).cuda().is_cuda, flush=True)\n"
        "if __name__ == '__main__':\n"
        "    code = \"import torch; print('child', torch.ones(2).cuda().device)\"\n"
        "    subprocess.run([sys.executable, '-c', code], check=True)\n"
        "    mp.spawn(child, nprocs=torch.cuda.device_count())\n"
    )
    assert output(script) == "child cuda:0\nspawned True\n"


def test_the_launcher_starts_other_launchers(script):
    script.write_text("import torch; print(torch.ones(1).cuda().device)")
    inner = (sys.executable, "-m", "torch_lazuli", str(script))
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "1", "--no-python")
    assert output(*torchrun, *inner, launched=False) == "cuda:0\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "there is no program to run"),
        (("--from", "mps", "x.py"), "'mps' is no device that can be taken over: cuda, cpu"),
        (("--from", "cuda", "--keep", "cuda", "x.py"), "no device is left to be taken over"),
        (("--wrong", "x.py"), "unrecognized arguments: --wrong"),
    ],
)
def test_wrong_options(options, message):
    done = run(*options)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_program_that_is_not_there_is_pythons_error():
    done = run("/nowhere/script.py")
    assert "can't open file '/nowhere/script.py'" in done.stderr
    assert done.returncode == 2


def test_torch_alone_is_not_taken_over():
    text = output("-c", "import torch; print(torch.cuda.is_available())", launched=False)
    own = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.cuda.is_available())"],
        capture_output=True,
        text=True,
        env=os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    assert text == own.stdout


@pytest.mark.parametrize("value", ["1", "auto", "cuda", "cuda,cpu"])
def test_the_variable_alone_takes_a_program_over(value):
    code = "import torch; x = torch.ones(2).to('cuda'); print(x.device)"
    text = output("-c", code, launched=False, LAZULI_TAKE_OVER=value)
    assert text.split()[-1] == "cuda:0"


def test_the_variable_switches_off():
    code = "import torch; print(torch.lazuli.is_available(), torch.cuda.is_initialized())"
    text = output("-c", code, launched=False, LAZULI_TAKE_OVER="0")
    assert text.split() == ["True", "False"]


def test_a_wrong_value_of_the_variable_is_an_error():
    done = run("-c", "import torch", launched=False, LAZULI_TAKE_OVER="tpu")
    assert done.returncode != 0
    assert "'tpu' is no device that can be taken over" in done.stderr


def test_a_report_of_the_program(script, tmp_path):
    script.write_text(
        "import subprocess, sys, torch\n"
        "x = torch.ones(8, 8).cuda()\n"
        "child = 'import torch; torch.ones(2).cuda().sum().item()'\n"
        "subprocess.run([sys.executable, '-c', child])\n"
        "print((x @ x).sum().item())\n"
    )
    page = tmp_path / "page.html"
    done = run("--report", page.name, script, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "512.0\n")
    assert done.stderr.count("the report is in") == 1  # the child writes none
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_a_report_of_a_program_that_fails(script, tmp_path):
    script.write_text("import torch; torch.ones(2).cuda().sum().item(); raise SystemExit(3)")
    page = tmp_path / "page.html"
    assert run("--report", page, script).returncode == 3
    assert page.exists()


def test_a_report_that_cannot_be_written_is_said_at_once(script, tmp_path):
    script.write_text("import sys, torch\ntorch.ones(2).cuda()\nprint('works', file=sys.stderr)\n")
    done = run("--report", tmp_path / "nowhere" / "page.html", script)
    assert done.returncode == 0
    said, works = done.stderr.index("there will be no report"), done.stderr.index("works")
    assert said < works


def test_a_program_that_does_not_use_its_cuda_is_told(script):
    hint = "With --from cuda,cpu it runs on lazuli"
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import torch'])\n"
    script.write_text(f"import torch\n{child}x = torch.ones(2)  # not on cuda\n")
    assert run(script).stderr.count(hint) == 1
    assert hint not in run("--from", "cuda", script).stderr
    script.write_text("import torch\ntorch.ones(2).cuda().sum().item()\n")
    assert hint not in run(script).stderr
    script.write_text("import torch\nraise ValueError('cuda')\n")
    assert hint not in run(script).stderr
