"""A training that ends when its time is up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ignite.engine import Events

from dcl_monai.engines import DCLTrainer, TwoStageLR
from dcl_monai.utils.distributed import on_first_rank

logger = logging.getLogger(__name__)

WINDOW = 3
"""Epochs of which the last mean is taken: other programs may come and go."""


@dataclass(frozen=True)
class Schedule:
    """
    What fits into the time.

    Args:
        stage1_epochs: epochs of stage 1.
        stage2_epochs: epochs of stage 2.
        iterations: steps of an epoch.
        seconds: expected of an epoch of stage 1, of one of stage 2, and of all that follows on training.
        deadline: when the run should have ended, by ``time.monotonic``.
    """

    stage1_epochs: int
    stage2_epochs: int
    iterations: int
    seconds: tuple[float, float, float]
    deadline: float

    @property
    def epochs(self) -> int:
        """Epochs of both stages."""
        return self.stage1_epochs + self.stage2_epochs


@dataclass
class TimeBudget:
    """
    Train for more or fewer epochs of stage 2 than were planned, if they take less or more time than was measured.

    Attach it last: what the other handlers do after an epoch takes time, too. Rank 0 decides for all.

    Args:
        schedule: the plan.
        lr_scheduler: its course of stage 2 ends with the training.
        clock: gives the time.
    """

    schedule: Schedule
    lr_scheduler: TwoStageLR
    clock: Callable[[], float] = time.monotonic
    taken: list[float] = field(default_factory=list)
    began: float = 0.0

    def attach(self, engine: DCLTrainer) -> None:
        engine.add_event_handler(Events.EPOCH_STARTED, self.start)
        engine.add_event_handler(Events.EPOCH_COMPLETED, self)

    def start(self, engine: DCLTrainer) -> None:
        """Begin an epoch."""
        self.began = self.clock()

    def __call__(self, engine: DCLTrainer) -> None:
        epoch, plan = engine.state.epoch, self.schedule
        self.taken.append(self.clock() - self.began)
        if epoch < plan.stage1_epochs or not plan.stage2_epochs:
            return
        total = on_first_rank(self.fitting)(epoch)
        if total != engine.state.max_epochs:
            logger.info(f"{total} epochs instead of {engine.state.max_epochs}, to end in time.")
            engine.state.max_epochs = total
            self.lr_scheduler.stage2_steps = (total - plan.stage1_epochs) * engine.state.epoch_length

    def fitting(self, epoch: int) -> int:
        """Epochs in all that fit into the time, at least one of stage 2, after so many of them."""
        plan = self.schedule
        expected = [plan.seconds[number > plan.stage1_epochs] for number in range(1, epoch + 1)][-len(self.taken) :]
        slower = sum(self.taken) / sum(expected)
        recent = self.taken[-min(WINDOW, epoch - plan.stage1_epochs) :] if epoch > plan.stage1_epochs else []
        each = sum(recent) / len(recent) if recent else slower * plan.seconds[1]
        left = plan.deadline - self.clock() - slower * plan.seconds[2]
        return max(epoch + max(0, round(left / each)), plan.stage1_epochs + 1)
