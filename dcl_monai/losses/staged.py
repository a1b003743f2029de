"""A loss for each stage."""

from __future__ import annotations

import torch
from torch import nn

from .averaging import Scheduled
from .compatible import TermLoss


class StagedLoss(Scheduled, TermLoss):
    """
    One loss in stage 1 and another in stage 2.

    Cross entropy with the annealed average finds all structures soon; MMEE, which is slow to find them, draws them
    better once they are there (docs/research/recipe.md). Not part of the paper, which has one loss throughout.

    Args:
        stage1: loss of stage 1, with ``terms``.
        stage2: loss of stage 2, with ``terms``.
    """

    def __init__(self, stage1: nn.Module, stage2: nn.Module) -> None:
        super().__init__()
        self.stage1 = stage1
        self.stage2 = stage2

    @property
    def current(self) -> nn.Module:
        """The loss of the stage that training is in; progress is 1 from the end of stage 1 on."""
        return self.stage2 if self.progress >= 1.0 else self.stage1

    def terms(
        self, logits: torch.Tensor, candidates: torch.Tensor, *conditions: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """
        The terms of the current loss.

        Args:
            logits: BN[HWD].
            candidates: boolean Bm[HWD].
            *conditions: what else the loss takes: ``cond_mask`` and ``cond_known``.
        """
        terms: dict[str, torch.Tensor] = self.current.terms(logits, candidates, *conditions)  # type: ignore[operator]
        return terms
