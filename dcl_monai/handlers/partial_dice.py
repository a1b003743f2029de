"""Partial-aware Dice as an ignite metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from monai.handlers import IgniteMetricHandler, from_engine

from dcl_monai.metrics import PartialDiceMetric


class PartialMeanDice(IgniteMetricHandler):
    """
    Mean Dice over the classes that are annotated in any image; over the unions, if no image shows any class.

    Dice by class and by union stands beside it in the engine's metrics, as ``<name>_<class>`` and ``<name>_<union>``,
    for those that some image shows; ``engine.state.metric_details[<name>]`` has a row per image and a column per class
    but the background, then per union.

    Args:
        classes: names of all classes, background first; the background is not measured.
        unions: name -> indices of its classes.
        output_transform: extracts one-hot predictions and candidate sets from ``engine.state.output``; default: its
            ``pred`` and ``label``.
    """

    metric_fn: PartialDiceMetric

    def __init__(
        self,
        classes: Sequence[str],
        unions: Mapping[str, Sequence[int]] | None = None,
        output_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        output_transform = from_engine(["pred", "label"]) if output_transform is None else output_transform
        super().__init__(metric_fn=PartialDiceMetric(unions=unions), output_transform=output_transform)
        self.classes = list(classes)
        self.unions = dict(unions or {})
        self.structures = [*self.classes[1:], *self.unions]

    def copy(self, output_transform: Callable[[Any], Any] | None = None) -> PartialMeanDice:
        """The same metric for another engine: a metric belongs to one. By default of its ``pred`` and ``label``."""
        return PartialMeanDice(self.classes, self.unions, output_transform)

    def compute(self) -> float:
        """Return the mean, and note Dice by class and union in the metrics of the engine."""
        mean = super().compute()
        if self._engine is not None:
            for name, value in zip(self.structures, self.metric_fn.by_class()[1], strict=True):
                if value is not None:
                    self._engine.state.metrics[f"{self._name}_{name}"] = value
        return mean
