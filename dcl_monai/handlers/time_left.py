"""How long a training will still take, its dearer second stage and its test included."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from ignite.engine import Engine, Events

from dcl_monai.datalist import Datalist

STAGE2 = 2.0
"""An epoch of stage 2 over one of stage 1, until one was timed: two passes more forward and one more backward."""
TESTING = 1.5
"""A test volume over a validation volume: it is brought back to its own grid."""


@dataclass(eq=False)
class TimeLeft:
    """
    Estimate the time left from the epochs and validations so far.

    Args:
        stage1_epochs: epochs of stage 1; ``None`` if there is but one stage.
        datalist: the data; with it, the validation and the test after training are included.
        clock: gives the time.
    """

    stage1_epochs: int | None = None
    datalist: Datalist | None = None
    clock: Callable[[], float] = time.monotonic
    epochs: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []}, init=False)
    began: float = field(default=0.0, init=False)
    validation: float = field(default=0.0, init=False)

    def attach(self, evaluator: Engine) -> None:
        evaluator.add_event_handler(Events.STARTED, self.start)
        evaluator.add_event_handler(Events.COMPLETED, self.stop)

    def start(self, engine: Engine) -> None:
        """A validation begins."""
        self.began = self.clock()

    def stop(self, engine: Engine) -> None:
        """A validation ends."""
        self.validation = self.clock() - self.began

    def after(self, epoch: int, epochs: int, seconds: float) -> float:
        """Seconds that are left after an epoch of so many that took so many seconds."""
        first = epochs if self.stage1_epochs is None else self.stage1_epochs
        self.epochs[epoch > first].append(seconds)
        one = float(np.mean(self.epochs[False])) if self.epochs[False] else 0.0
        two = float(np.mean(self.epochs[True])) if self.epochs[True] else STAGE2 * one
        training = max(0, first - epoch) * one + min(epochs - epoch, max(0, epochs - first)) * two
        if not self.datalist or not self.datalist["validation"]:
            return training
        volumes = TESTING * len(self.datalist["test"]) / len(self.datalist["validation"])
        return training + self.validation * (1 + volumes)
