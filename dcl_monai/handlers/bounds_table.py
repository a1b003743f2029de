"""Do the bounds that travel in a model hold on test volumes?"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ignite.distributed as idist
import numpy as np
from ignite.engine import Events
from monai.engines import Evaluator

from dcl_monai.metrics import measure_structures, structure_bounds
from dcl_monai.utils.distributed import gather
from dcl_monai.utils.tables import write_table

from .case_tables import measured, voxel_size
from .dice_table import NOTED

__all__ = ["BoundsTable"]

logger = logging.getLogger(__name__)
COLUMNS = (
    *("structure", "confidence", "dice", "dice_bound", "volume_ml", "volume_low_ml", "volume_high_ml"),
    *("drawn_ml", "dice_holds", "volume_holds", "unlike"),
)


class BoundsTable:
    """
    Compare Dice and volume of every test volume with their bounds, in a CSV file, and log how often they hold.

    Args:
        classes: names of all classes, background first.
        bounds: of :func:`~dcl_monai.metrics.calibrate_bounds`; ``None``: the model has none, and nothing is done.
        path: the CSV file.
    """

    def __init__(self, classes: Sequence[str], bounds: Mapping[str, Any] | None, path: str) -> None:
        self.classes = list(classes)
        self.bounds = bounds
        self.path = Path(path)
        self.rows: list[list[Any]] = []

    def attach(self, engine: Evaluator) -> None:
        """
        Args:
            engine: the evaluator, with outputs that hold class probabilities ``probabilities``, one-hot ``pred`` and
                candidate sets ``label``.
        """
        if self.bounds:
            engine.add_event_handler(Events.STARTED, lambda _: self.rows.clear())
            engine.add_event_handler(Events.ITERATION_COMPLETED, self.add)
            engine.add_event_handler(Events.COMPLETED, self)

    def add(self, engine: Evaluator) -> None:
        """Measure the volumes of an iteration."""
        for item, output in measured(engine):
            voxel = float(np.prod(voxel_size(output["pred"]))) / 1000
            labels = output["pred"].argmax(0).to(output["probabilities"].device)
            found = measure_structures(output["probabilities"], labels, output["label"], voxel, item["subject"])
            for j, case in found.items():
                bound = structure_bounds(self.bounds or {}, self.classes[j], case.confidence, case.predicted_ml)
                if bound is None:
                    continue
                low, high = bound["volume_ml"]
                holds = (case.dice >= bound["dice"], low <= case.true_ml <= high)
                numbers = (case.confidence, case.dice, bound["dice"], case.predicted_ml, low, high, case.true_ml)
                noted = [str(item.get(key, "")) for key in NOTED]
                cells = [*(f"{number:.4f}" for number in numbers), *map(int, holds), "; ".join(bound["unlike"])]
                self.rows.append([*noted, self.classes[j], *cells])

    def __call__(self, engine: Evaluator) -> None:
        rows = gather(self.rows)
        if idist.get_rank() > 0 or self.bounds is None:
            return
        write_table(self.path, [[*NOTED, *COLUMNS], *rows])
        dice, volume = COLUMNS.index("dice_holds") + len(NOTED), COLUMNS.index("volume_holds") + len(NOTED)
        for name in self.classes[1:]:
            chosen = [row for row in rows if row[len(NOTED)] == name]
            if chosen:
                held = (sum(row[dice] for row in chosen), sum(row[volume] for row in chosen))
                logger.info(
                    f"{name}: of {len(chosen)} volumes, the bound of Dice holds in {held[0]} and the interval of "
                    f"volume in {held[1]}; {self.bounds['level']:.0%} were promised."
                )
