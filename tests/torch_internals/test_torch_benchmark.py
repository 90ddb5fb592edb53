"""backend/python/torch_lazuli/libraries/benchmark.py"""

import timeit

from torch.utils.benchmark.utils import timer


def test_a_timer_keeps_pythons_timer_and_its_statement(device):
    assert timer.Timer._timer_cls is timeit.Timer
    made = timer.Timer("1", setup="x = 2", globals={"y": 3})
    assert (made._task_spec.stmt, made._task_spec.setup) == ("1", "x = 2")
    calls = []
    made._timer = type("Noted", (), {"timeit": lambda self, number: calls.append(number) or 1.0})()
    made.timeit(5)
    assert calls == [2, 5], "Timer must measure by `_timer.timeit`"
    assert timeit.Timer("1", globals={"y": 3}).inner.__globals__["y"] == 3
