"""Partial-aware Dice as an ignite metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from monai.handlers import IgniteMetricHandler

from dcl_monai.metrics import PartialDiceMetric

__all__ = ["PartialMeanDice"]


class PartialMeanDice(IgniteMetricHandler):
    """
    Mean Dice over the classes that are annotated in any image; Dice by class stands beside it in the engine's metrics,
    as ``<name>_<class>``, for the classes that some image shows.

    Args:
        classes: names of all classes, background first; the background is not measured.
        output_transform: extracts one-hot predictions and candidate sets from ``engine.state.output``.
    """

    metric_fn: PartialDiceMetric

    def __init__(self, classes: Sequence[str], output_transform: Callable[[Any], Any] = lambda output: output) -> None:
        super().__init__(metric_fn=PartialDiceMetric(), output_transform=output_transform)
        self.classes = list(classes)[1:]

    def compute(self) -> float:
        """Return the mean, and note Dice by class in the metrics of the engine."""
        mean = super().compute()
        if self._engine is not None:
            for name, value in zip(self.classes, self.metric_fn.by_class()[1], strict=True):
                if value is not None:
                    self._engine.state.metrics[f"{self._name}_{name}"] = value
        return mean
