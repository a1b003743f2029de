"""What a run shows while it is under way: its progress, and events for TensorBoard. Rank 0 alone shows anything."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

import ignite.distributed as idist
from ignite.engine import Engine, Events
from ignite.handlers import ProgressBar
from monai.engines import Trainer
from monai.handlers import TensorBoardStatsHandler

from dcl_monai.engines import LOSS_TERMS, first_output

logger = logging.getLogger(__name__)

SECONDS = 60.0
"""At least so long from one line of the log to the next."""


class Progress:
    """
    Ignite's progress bar where the output is a terminal; elsewhere a line of the log now and then.

    Args:
        desc: word before the bar.
    """

    def __init__(self, desc: str) -> None:
        self.desc = desc
        self.shown = 0.0

    def attach(self, engine: Engine) -> None:
        if idist.get_rank() > 0:
            return
        if sys.stderr.isatty():
            ProgressBar(desc=self.desc).attach(engine)
        else:
            engine.add_event_handler(Events.STARTED, self.start)
            engine.add_event_handler(Events.ITERATION_COMPLETED, self.line)

    def start(self, engine: Engine) -> None:
        """Nothing is shown of what ends soon."""
        self.shown = time.monotonic()

    def line(self, engine: Engine) -> None:
        """Say how far the epoch is."""
        if time.monotonic() - self.shown >= SECONDS:
            self.shown = time.monotonic()
            state = engine.state
            epoch = f" {state.epoch}/{state.max_epochs}" if (state.max_epochs or 1) > 1 else ""
            length = state.epoch_length or 1
            logger.info(f"{self.desc}{epoch}: step {(state.iteration - 1) % length + 1} of {length}")


class TensorBoard:
    """
    MONAI's events for TensorBoard: the terms of the loss of a trainer, and the metrics of either engine.

    Args:
        output_dir: folder of the run; the events are written to its folder ``tensorboard``.
        interval: iterations from one event of the loss to the next.
    """

    def __init__(self, output_dir: str, interval: int = 10) -> None:
        self.log_dir = f"{output_dir}/tensorboard"
        self.interval = interval

    def attach(self, engine: Engine) -> None:
        if idist.get_rank() == 0:  # the writer makes its file at once
            TensorBoardStatsHandler(
                log_dir=self.log_dir,
                iteration_log=self.interval if isinstance(engine, Trainer) else False,
                tag_name="loss",
                output_transform=loss_terms,
            ).attach(engine)


def loss_terms(output: list[dict[str, Any]] | dict[str, Any]) -> dict[str, Any]:
    """The terms of the loss in the output of a trainer."""
    found = first_output(output)
    return {name: found[name] for name in LOSS_TERMS if name in found}
