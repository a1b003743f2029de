"""Dice of whole structures, where a partial label decides them."""

from __future__ import annotations

import torch
from torch import nn

from dcl_monai.candidates import known_positive

from .probabilities import LogProbabilities

__all__ = ["RegionDiceLoss"]


class RegionDiceLoss(nn.Module):
    """
    Soft Dice loss of every class that an item decides at all its voxels, and of its complement.

    Whoever drew the right ventricle of an image said of every voxel whether it belongs to it: its Dice is known
    although the other structures are not. Whoever drew the background drew the outline of all structures together:
    hence the complement. Unlike Eq. 13-14 and 16, which are Dice of single voxels, it divides by the size of a
    structure, so that small ones count as much as large ones from the first step to the last. It is not a loss of the
    paper; it is compatible in the sense of Definition 1.

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
        decided = ((inside | ~candidates) & candidates.any(1, keepdim=True)).flatten(2).all(2).to(prob.prob.dtype)  # Bm
        p, y = prob.prob.flatten(2), inside.flatten(2).to(prob.prob.dtype)
        both, of_p, of_y = (p * y).sum(2), p.sum(2), y.sum(2)
        neither = p.shape[2] - of_p - of_y + both
        loss = self._of_sums(both, of_p + of_y, decided) + self._of_sums(neither, 2 * p.shape[2] - of_p - of_y, decided)
        is_seen = (decided.sum(0) > 0).to(p.dtype)
        return (loss * is_seen).sum() / is_seen.sum().clamp_min(1.0)

    def _of_sums(self, both: torch.Tensor, sizes: torch.Tensor, decided: torch.Tensor) -> torch.Tensor:
        """1 - Dice per class, shape (m,), of the intersections and summed sizes per item, Bm."""
        both, sizes = (both * decided).sum(0), (sizes * decided).sum(0)
        return 1.0 - (2.0 * both + self.smooth) / (sizes + self.smooth)
