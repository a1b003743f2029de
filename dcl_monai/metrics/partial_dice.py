"""Dice that counts a class, or a union of classes, only in images where it is annotated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from monai.metrics import CumulativeIterationMetric, do_metric_reduction

from dcl_monai.candidates import known, known_positive
from dcl_monai.utils import DataError


def compute_partial_dice(
    y_pred: torch.Tensor, candidates: torch.Tensor, unions: Mapping[str, Sequence[int]] | None = None
) -> torch.Tensor:
    """
    Dice per image and class, over the voxels at which the class is known; then the same of unions of classes.

    Where a class is annotated that is the ordinary Dice; for scribbles it is Dice over the strokes. A union ("whole
    heart") may be known though none of its classes is, see :func:`union_membership`.

    Args:
        y_pred: one-hot prediction, BN[HWD].
        candidates: boolean candidate sets, BN[HWD].
        unions: name -> indices of its classes, for U unions.

    Returns:
        shape B(N+U), classes before unions; nan where the class or union is not annotated in the image, or annotated
        and absent (as :py:class:`monai.metrics.DiceMetric` has it).
    """
    if y_pred.shape != candidates.shape:
        raise ValueError(f"prediction {tuple(y_pred.shape)} and candidates {tuple(candidates.shape)} differ in shape.")
    positive = y_pred > 0.5
    preds, trues = [positive & known(candidates)], [known_positive(candidates)]
    for members in (unions or {}).values():
        inside, decided = union_membership(candidates, members)
        preds.append(positive[:, list(members)].any(1, keepdim=True) & decided)
        trues.append(inside)
    pred, true = torch.cat(preds, 1).flatten(2), torch.cat(trues, 1).flatten(2)
    overlap = 2.0 * (pred & true).sum(2)
    size = pred.sum(2) + true.sum(2)
    return torch.where(true.any(2), overlap / size.clamp_min(1), torch.nan)


def union_membership(candidates: torch.Tensor, members: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Voxels that are known to be in a union, and voxels of which it is known whether they are.

    A candidate set inside the union or disjoint from it decides; one that straddles it does not. Voxels that may be
    anything (off the strokes of scribbles, in ignored regions) are just left out. Any other straddling set means that
    the annotator drew but a part of the union: with the RV drawn, {RV} is in the whole heart and {background, MYO, LV}
    is undecided. In such an image nothing is known of the union, as Dice over the drawn part could see no false
    positives.

    Args:
        candidates: boolean candidate sets, BN[HWD].
        members: class indices of the union.

    Returns:
        two boolean tensors of shape B1[HWD].
    """
    others = [index for index in range(candidates.shape[1]) if index not in members]
    may_be_in = candidates[:, list(members)].any(1, keepdim=True)
    may_be_out = candidates[:, others].any(1, keepdim=True)
    part_drawn = may_be_in & may_be_out & ~candidates.all(1, keepdim=True)
    shown = ~part_drawn.any(dim=tuple(range(1, candidates.ndim)), keepdim=True)
    return may_be_in & ~may_be_out & shown, ~(may_be_in & may_be_out) & shown


class PartialDiceMetric(CumulativeIterationMetric):
    """
    Mean Dice over the classes that any image shows, for label sets that may be partial themselves.

    A class that nobody annotated is left out: it turns neither into 0 nor into nan. Unions are measured beside the
    classes and do not enter the mean, unless no image shows any class: then the mean is over the unions, so that images
    in which only unions are drawn can still choose a model.

    Args:
        include_background: whether class 0 counts.
        unions: name -> indices of its classes.
    """

    def __init__(self, include_background: bool = False, unions: Mapping[str, Sequence[int]] | None = None) -> None:
        super().__init__()
        self.include_background = include_background
        self.unions = dict(unions or {})

    def _compute_tensor(self, y_pred: torch.Tensor, y: torch.Tensor | None = None, **kwargs: Any) -> torch.Tensor:
        if y is None:
            raise ValueError("Dice needs the candidate sets `y`.")
        dice = compute_partial_dice(y_pred, y, self.unions)
        return dice if self.include_background else dice[:, 1:]

    def aggregate(self) -> float:
        """Mean over classes of the mean over the images that show the class."""
        return self.by_class()[0]

    def by_class(self) -> tuple[float, list[float | None]]:
        """
        Return the mean over classes, and the mean Dice of every class and then of every union, ``None`` for one that no
        image shows.

        Raises:
            DataError: when no image shows any class or union.
        """
        data = self.get_buffer()
        if not isinstance(data, torch.Tensor):
            raise ValueError("the data to aggregate must be a tensor.")
        means, counts = do_metric_reduction(data, "mean_batch")
        shown = counts > 0
        classes = slice(len(means) - len(self.unions))
        averaged = classes if bool(shown[classes].any()) else slice(None)
        if not bool(shown[averaged].any()):
            raise DataError(
                "no image of this set shows a class or union, so nothing can be measured. Add labelled images to "
                "validation and test."
            )
        values = [float(mean) if seen else None for mean, seen in zip(means, shown, strict=True)]
        return float(means[averaged][shown[averaged]].mean()), values
