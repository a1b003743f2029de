"""Dice that counts a class only in images where it is annotated."""

from __future__ import annotations

from typing import Any

import torch
from monai.metrics import CumulativeIterationMetric, do_metric_reduction

from dcl_monai.candidates import known, known_positive

__all__ = ["PartialDiceMetric", "compute_partial_dice"]


def compute_partial_dice(y_pred: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """
    Dice per image and class, over the voxels at which the class is known.

    Where a class is annotated that is the ordinary Dice; for scribbles it is Dice over the strokes.

    Args:
        y_pred: one-hot prediction, BN[HWD].
        candidates: boolean candidate sets, BN[HWD].

    Returns:
        shape BN; nan where the class is not annotated in the image, or annotated and absent (as
        :py:class:`monai.metrics.DiceMetric` has it).
    """
    if y_pred.shape != candidates.shape:
        raise ValueError(f"prediction {tuple(y_pred.shape)} and candidates {tuple(candidates.shape)} differ in shape.")
    pred = (y_pred > 0.5) & known(candidates)
    true = known_positive(candidates)
    overlap = 2.0 * (pred & true).flatten(2).sum(2)
    size = pred.flatten(2).sum(2) + true.flatten(2).sum(2)
    return torch.where(true.flatten(2).any(2), overlap / size.clamp_min(1), torch.nan)


class PartialDiceMetric(CumulativeIterationMetric):
    """
    Mean Dice over the classes that any image shows, for label sets that may be partial themselves.

    A class that nobody annotated is left out: it turns neither into 0 nor into nan.

    Args:
        include_background: whether class 0 counts.
    """

    def __init__(self, include_background: bool = False) -> None:
        super().__init__()
        self.include_background = include_background

    def _compute_tensor(self, y_pred: torch.Tensor, y: torch.Tensor | None = None, **kwargs: Any) -> torch.Tensor:
        if y is None:
            raise ValueError("Dice needs the candidate sets `y`.")
        dice = compute_partial_dice(y_pred, y)
        return dice if self.include_background else dice[:, 1:]

    def aggregate(self) -> float:
        """Mean over classes of the mean over the images that show the class."""
        return self.by_class()[0]

    def by_class(self) -> tuple[float, list[float | None]]:
        """
        Return the mean over classes, and the mean Dice of every class, ``None`` for one that no image shows.

        Raises:
            ValueError: when no image shows any class.
        """
        data = self.get_buffer()
        if not isinstance(data, torch.Tensor):
            raise ValueError("the data to aggregate must be a tensor.")
        means, counts = do_metric_reduction(data, "mean_batch")
        shown = counts > 0
        if not bool(shown.any()):
            raise ValueError("no image of this set shows any of the classes, so there is nothing to measure.")
        classes = [float(mean) if seen else None for mean, seen in zip(means, shown, strict=True)]
        return float(means[shown].mean()), classes
