"""The table of test results."""

from __future__ import annotations

import csv
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ignite.engine import Events
from monai.engines import Evaluator

from dcl_monai.utils.files import replace_atomic

__all__ = ["DiceTable"]

logger = logging.getLogger(__name__)


class DiceTable:
    """
    Log Dice by structure (mean and standard deviation over volumes, by phase where there are phases) at the end of an
    evaluation, and write Dice of every volume to a CSV file.

    Args:
        classes: names of all classes, background first.
        path: the CSV file.
        metric: name of the evaluator's :class:`~dcl_monai.handlers.PartialMeanDice`.
    """

    def __init__(self, classes: Sequence[str], path: str, metric: str = "test_dice") -> None:
        self.classes = list(classes)[1:]
        self.path = Path(path)
        self.metric = metric
        self.cases: list[tuple[str, str]] = []

    def attach(self, engine: Evaluator) -> None:
        """
        Args:
            engine: the evaluator, with decollated batches that hold ``subject`` and perhaps ``phase``.
        """
        engine.add_event_handler(Events.STARTED, lambda _: self.cases.clear())
        engine.add_event_handler(Events.ITERATION_COMPLETED, self.add)
        engine.add_event_handler(Events.COMPLETED, self)

    def add(self, engine: Evaluator) -> None:
        """Note which volumes were measured."""
        self.cases += [(item["subject"], item.get("phase", "")) for item in engine.state.batch]

    def __call__(self, engine: Evaluator) -> None:
        dice = np.asarray(engine.state.metric_details[self.metric].cpu())
        phases = sorted({phase for _, phase in self.cases})
        lines = [f"{'Dice':8}" + "".join(f"{name:>16}" for name in [*self.classes, "mean"])]
        for phase in [*phases, "all"] if len(phases) > 1 else ["all"]:
            rows = dice[[phase in (own, "all") for _, own in self.cases]]
            cells = [f"{np.nanmean(column):.3f} ± {np.nanstd(column):.3f}" for column in rows.T]
            mean = np.nanmean([np.nanmean(column) for column in rows.T])
            lines.append(f"{phase:8}" + "".join(f"{cell:>16}" for cell in [*cells, f"{mean:.3f}"]))
        logger.info("test results, mean ± standard deviation over volumes:\n" + "\n".join(lines))

        def write_csv(path: Path) -> None:
            with path.open("w", newline="", encoding="utf-8") as file:
                table = csv.writer(file)
                table.writerow(["subject", "phase", *self.classes])
                table.writerows([*case, *(f"{v:.4f}" for v in row)] for case, row in zip(self.cases, dice, strict=True))

        replace_atomic(self.path, write_csv)
