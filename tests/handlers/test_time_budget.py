"""A training of stages whose steps take other times than were measured ends in time."""

from __future__ import annotations

import pytest
import torch
from ignite.engine import Engine, Events

from dcl_monai.engines import TwoStageLR
from dcl_monai.handlers import Schedule, TimeBudget


def trained(slower: float, deadline: float = 100.0) -> tuple[float, Engine, TwoStageLR]:
    """Train on a clock on which an epoch takes ``slower`` times what was expected; return the time of its end."""
    now = 0.0
    schedule = Schedule(4, 8, 10, (5.0, 8.0, 10.0), deadline)  # 4 * 5 + 8 * 8 + 10 = 94

    def step(engine: Engine, batch: int) -> None:
        nonlocal now
        now += slower * (5.0 if engine.state.epoch <= 4 else 8.0) / 10

    engine = Engine(step)
    course = TwoStageLR(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01), 40, 80, 0.01)
    TimeBudget(schedule, course, clock=lambda: now).attach(engine)
    engine.run(range(10), max_epochs=12)
    return now + slower * 10.0, engine, course


@pytest.mark.parametrize("slower", [0.5, 0.9, 1.0, 1.3, 2.0])
def test_it_ends_in_time(slower):
    end, engine, course = trained(slower)
    assert end == pytest.approx(100.0, abs=0.6 * slower * 8)  # half an epoch
    assert engine.state.epoch == engine.state.max_epochs
    assert course.stage2_steps == 10 * (engine.state.epoch - 4)


def test_there_is_always_a_second_stage():
    _, engine, _ = trained(10.0)
    assert engine.state.epoch == 5


def test_other_programs_come_and_go():
    """It was three times as slow for a while."""
    now, schedule = 0.0, Schedule(4, 20, 1, (5.0, 8.0, 10.0), 194.0)

    def step(engine: Engine, batch: int) -> None:
        nonlocal now
        usual = 5.0 if engine.state.epoch <= 4 else 8.0
        now += usual * (3 if 3 <= engine.state.epoch <= 7 else 1)

    engine = Engine(step)
    course = TwoStageLR(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01), 4, 20, 0.01)
    TimeBudget(schedule, course, clock=lambda: now).attach(engine)
    engine.add_event_handler(Events.EPOCH_COMPLETED, lambda _: None)
    engine.run([0], max_epochs=24)
    assert 174.0 <= now + 10.0 <= 204.0
