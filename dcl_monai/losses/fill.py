"""Compatible self-training: a frozen copy of the network fills what nobody drew."""

from __future__ import annotations

import torch

from dcl_monai.candidates import as_numbers, number_of_candidates

from .averaging import Scheduled, SumMean
from .probabilities import LogProbabilities


class FillLoss(Scheduled):
    """
    Cross entropy with a teacher's prediction where the class of a voxel is unknown, restricted to its candidate set.

    Where several classes are left, the target is the teacher's probability of each candidate over that of all of them:
    a class that the annotation excludes is never taught, and where the class is known the term is silent. It is not a
    loss of the paper, and it is compatible in the sense of Definition 1 only where the teacher is right. So it fades
    out over stage 2: at first it tells the structures apart sooner than partial labels can, at the end the network
    learns from what is known alone and may leave the teacher's mistakes behind.

    Args:
        num_classes: number of classes m.
        weight: factor of the sum over the voxels per voxel; 3 is that of
            :class:`~dcl_monai.losses.AnnealedMean` at the end of its course.
        start: progress (of stage 2, as a rule) from which the weight falls.
        end: progress from which it is zero.
    """

    def __init__(self, num_classes: int, weight: float = 3.0, start: float = 0.3, end: float = 0.85) -> None:
        super().__init__()
        if not start < end:
            raise ValueError(f"filling must start to fade before it ends: start={start}, end={end}.")
        self.num_classes = num_classes
        self.full_weight = weight
        self.start, self.end = start, end
        self.averaging = SumMean()

    @property
    def weight(self) -> float:
        """The weight now; at 0 a caller need not ask the teacher."""
        return self.full_weight * min(max((self.end - self.progress) / (self.end - self.start), 0.0), 1.0)

    def forward(self, logits: torch.Tensor, teacher: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """
        Args:
            logits: BN[HWD] with N = m or 2m.
            teacher: class probabilities of the teacher, Bm[HWD], without gradient.
            candidates: boolean Bm[HWD], the candidate sets.
        """
        log = LogProbabilities.of_classes(logits, self.num_classes).log
        allowed = teacher * as_numbers(candidates, teacher.dtype)
        # a teacher that gives all candidates almost nothing says nothing: the target fades out with their sum
        target = allowed / allowed.sum(dim=1, keepdim=True).clamp_min(0.05)
        is_open = number_of_candidates(candidates) > 1
        entropy = -(target * log).sum(dim=1, keepdim=True)
        return self.weight * self.averaging(entropy, is_open).mean()
