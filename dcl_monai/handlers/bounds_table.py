"""Do the bounds that travel in a model hold on test volumes?"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from monai.engines import Evaluator

from dcl_monai.metrics import measure_structures, structure_bounds

from .case_tables import CaseTable, voxel_size
from .dice_table import NOTED

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class BoundsTable(CaseTable):
    """
    Compare Dice and volume of every test volume with their bounds, in a CSV file, and log how often they hold.

    Attach it to an evaluator whose outputs hold class probabilities ``probabilities``, too.

    Args:
        classes: names of all classes, background first.
        path: the CSV file.
        bounds: of :func:`~dcl_monai.metrics.calibrate_bounds`; ``None``: the model has none, and nothing is done.
    """

    bounds: Mapping[str, Any] | None
    columns = (
        *("structure", "confidence", "dice", "dice_bound", "volume_ml", "volume_low_ml", "volume_high_ml"),
        *("drawn_ml", "dice_holds", "volume_holds", "unlike"),
    )

    def attach(self, engine: Evaluator) -> None:
        if self.bounds:
            super().attach(engine)

    def measure(self, output: Mapping[str, torch.Tensor]) -> Iterator[list[Any]]:
        """Every structure that is drawn and has a bound."""
        voxel = math.prod(voxel_size(output["pred"])) / 1000
        labels = output["pred"].argmax(0).to(output["probabilities"].device)
        found = measure_structures(output["probabilities"], labels, output["label"], voxel, subject=None)
        for j, case in found.items():
            bound = structure_bounds(self.bounds or {}, self.classes[j], case.confidence, case.predicted_ml)
            if bound is not None:
                low, high = bound["volume_ml"]
                numbers = (case.confidence, case.dice, bound["dice"], case.predicted_ml, low, high, case.true_ml)
                holds = int(case.dice >= bound["dice"]), int(low <= case.true_ml <= high)
                yield [self.classes[j], *(f"{number:.4f}" for number in numbers), *holds, "; ".join(bound["unlike"])]

    def log(self) -> None:
        """How often the bounds of every structure hold."""
        assert self.bounds is not None
        for name in self.classes[1:]:
            rows = [dict(zip(self.columns, line[len(NOTED) :], strict=True)) for line in self.lines]
            held = [(row["dice_holds"], row["volume_holds"]) for row in rows if row["structure"] == name]
            if held:
                dice, volume = map(sum, zip(*held, strict=True))
                logger.info(
                    f"{name}: of {len(held)} volumes, the bound of Dice holds in {dice} and the interval of volume in "
                    f"{volume}; {self.bounds['level']:.0%} were promised."
                )
