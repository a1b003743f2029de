from __future__ import annotations

from ignite.engine import Engine

from dcl_monai.handlers.time_left import TimeLeft


def test_stage_2_and_the_test_are_foreseen():
    now = 0.0

    def step(engine, batch):
        nonlocal now
        now += 2.0

    left = TimeLeft(3, {"validation": [0] * 4, "test": [0] * 8}, clock=lambda: now)
    evaluator = Engine(step)
    left.attach(evaluator)
    assert left.after(1, 5, 10.0) == 2 * 10 + 2 * 20 + 0  # nothing was validated yet
    evaluator.run(range(4))
    ending = 8.0 * (1 + 1.5 * 8 / 4)
    assert left.after(2, 5, 20.0) == 15 + 2 * 30 + ending
    left.after(3, 5, 15.0)
    assert left.after(4, 5, 50.0) == 50 + ending
    assert left.after(5, 5, 70.0) == ending


def test_one_stage():
    left = TimeLeft()
    assert left.after(1, 3, 10.0) == 20.0
    assert left.after(3, 3, 10.0) == 0.0
