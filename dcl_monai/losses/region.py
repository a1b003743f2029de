"""Dice of whole structures, where a partial label decides them."""

from __future__ import annotations

import torch
from torch import nn

from dcl_monai.candidates import as_numbers, known_positive, number_of_candidates

from .probabilities import LogProbabilities

MAJORITY = 0.5
"""A slice counts that decides a class at more than this part of its voxels, and shows it."""


class RegionDiceLoss(nn.Module):
    """
    Soft Dice loss of every class that a slice decides, and of its complement.

    Whoever drew the right ventricle in a slice said of every voxel whether it belongs to it: its Dice is known
    although the other structures are not. Whoever drew the background drew the outline of all structures together:
    hence the complement. Unlike Eq. 13-14 and 16, which are Dice of single voxels, it divides by the size of a
    structure, so that small ones count as much as large ones from the first step to the last. It is not a loss of the
    paper; it is compatible in the sense of Definition 1.

    A slice counts for a class that it decides at all its voxels. It also counts, but for the voxels left open, if it
    shows the class and decides it at most voxels: all but an ignored region or uncertain borders. Scribbles do not
    count: Dice on strokes says nothing of structures. In volumes the slices along any axis count, since a volume may be
    annotated in some slices only.

    Sums run over the batch (nnU-Net's "batch Dice"): slices without the structure say little on their own. So an item's
    loss depends on its batch mates, unlike that of the other terms, and several processes sum over their own batches.
    (:py:class:`monai.losses.MaskedDiceLoss` masks voxels for all classes alike; here each item has classes of its own.)

    Args:
        num_classes: number of classes m.
        smooth: voxels that are added to numerator and denominator.
    """

    def __init__(self, num_classes: int, smooth: float = 10.0) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.smooth = smooth

    def forward(self, logits: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """
        Args:
            logits: BN[HWD] with N = m or 2m.
            candidates: boolean Bm[HWD], the candidate sets.
        """
        return self.of_probabilities(LogProbabilities.of_classes(logits, self.num_classes), candidates)

    def of_probabilities(self, prob: LogProbabilities, candidates: torch.Tensor) -> torch.Tensor:
        """The same from class probabilities, for those who have them already."""
        inside = known_positive(candidates)
        decided = (inside | ~candidates) & number_of_candidates(candidates).bool()
        y, w = (as_numbers(mask, prob.prob.dtype) for mask in (inside, decided))
        if y.ndim < 5:  # an image is one slice, which counts or not
            slices = slice_counts(y, w, tuple(range(2, y.ndim))).flatten(1)
        else:
            slices = torch.ones(())
            y, w = in_slices_that_count(y, w)
        p, y, w = prob.prob.flatten(2), y.flatten(2), w.flatten(2)
        both, of_p, of_y, size = (slices * entries.sum(2) for entries in (p * y, p * w, y, w))
        neither = size - of_p - of_y + both
        loss = self._of_sums(both, of_p + of_y) + self._of_sums(neither, 2 * size - of_p - of_y)
        is_seen = (size.sum(0) > 0).to(p.dtype)
        return (loss * is_seen).sum() / is_seen.sum().clamp_min(1.0)

    def _of_sums(self, both: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        """1 - Dice per class, shape (m,), of the intersections and summed sizes per item, Bm."""
        return 1.0 - (2.0 * both.sum(0) + self.smooth) / (sizes.sum(0) + self.smooth)


def slice_counts(inside: torch.Tensor, decided: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    """
    For which classes a slice counts: 1 or 0, of size 1 along the axes of the slice.

    ``inside`` is 1 where a voxel is known to be of the class, ``decided`` where it is known whether it is, Bm[HWD].
    """
    share, shown = decided.mean(axes, keepdim=True), inside.sum(axes, keepdim=True)
    return ((share == 1.0) | ((share > MAJORITY) & (shown > 0.0))).to(decided.dtype)


def in_slices_that_count(inside: torch.Tensor, decided: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both of a volume, a stack of slices along an axis that augmentation may have turned, with 0 elsewhere."""
    counted = torch.zeros(())
    for axes in ((3, 4), (2, 4), (2, 3)):
        counted = torch.maximum(counted, slice_counts(inside, decided, axes))
    return inside * counted, decided * counted
