"""What others do with partial labels: the losses that the compatible ones are compared with."""

from __future__ import annotations

import torch
from torch import nn

from dcl_monai.candidates import assert_candidates, known_positive

from .probabilities import LogProbabilities


class ConventionalCELoss(nn.Module):
    """
    Conventional cross entropy against the paper's label vector, with p = 1 / (m - q) at unknown entries (row #1).

    It is *not* compatible (Proposition 1): its minimiser is the label vector itself, an even guess among all classes
    that nobody drew.

    Args:
        num_classes: number of classes m.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes

    def forward(self, logits: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """
        Args:
            logits: BN[HWD] with N = m or 2m.
            candidates: boolean Bm[HWD], the candidate sets.
        """
        assert_candidates(candidates)
        prob = LogProbabilities.of_classes(logits, self.num_classes)
        vector = candidates / candidates.sum(dim=1, keepdim=True)
        entries = -(vector * prob.log + (1.0 - vector) * prob.log_not)
        return entries.sum(dim=1).mean()


class IgnoreDiceCELoss(nn.Module):
    """
    nnU-Net's way with an ignore label: cross entropy and soft Dice where a voxel's class is known, nothing elsewhere.

    As in nnU-Net, Dice leaves out the background and has a smoothing term; unlike its 2D default, Dice is computed per
    item and not over the batch.

    Args:
        num_classes: number of classes m, class 0 being the background.
        smooth: smoothing term of Dice, in numerator and denominator.
    """

    def __init__(self, num_classes: int, smooth: float = 1e-5) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.smooth = smooth

    def forward(self, logits: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """Arguments are those of :class:`ConventionalCELoss`."""
        prob = LogProbabilities.of_classes(logits, self.num_classes)
        truth = known_positive(candidates)
        is_known = truth.any(dim=1, keepdim=True)
        count = is_known.flatten(1).sum(1).clamp_min(1)
        ce = (torch.where(truth, -prob.log, 0.0).flatten(1).sum(1) / count).mean()
        pred = (prob.prob * is_known)[:, 1:].flatten(2)
        true = truth[:, 1:].flatten(2)
        overlap = 2.0 * (pred * true).sum(2)
        dice = (overlap + self.smooth) / (pred.sum(2) + true.sum(2) + self.smooth)
        return ce + (1.0 - dice).mean()
