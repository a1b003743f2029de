"""What a run shows while it is under way: a progress bar, and events for TensorBoard. Rank 0 alone shows anything."""

from __future__ import annotations

from typing import Any

import ignite.distributed as idist
from ignite.engine import Engine
from ignite.handlers import ProgressBar
from monai.engines import Trainer
from monai.handlers import TensorBoardStatsHandler

from dcl_monai.engines import LOSS_TERMS

__all__ = ["Progress", "TensorBoard"]


class Progress:
    """
    Ignite's progress bar, where the output is a terminal.

    Args:
        desc: word before the bar.
    """

    def __init__(self, desc: str) -> None:
        self.desc = desc

    def attach(self, engine: Engine) -> None:
        """
        Args:
            engine: a trainer or an evaluator.
        """
        if idist.get_rank() == 0:
            ProgressBar(desc=self.desc, disable=None).attach(engine)


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
        """
        Args:
            engine: a :class:`~dcl_monai.engines.DCLTrainer` or an evaluator.
        """
        if idist.get_rank() == 0:  # the writer makes its file at once
            TensorBoardStatsHandler(
                log_dir=self.log_dir,
                iteration_log=self.interval if isinstance(engine, Trainer) else False,
                tag_name="loss",
                output_transform=loss_terms,
            ).attach(engine)


def loss_terms(output: dict[str, Any]) -> dict[str, Any]:
    """The terms of the loss in the output of a trainer."""
    return {name: output[name] for name in LOSS_TERMS if name in output}
