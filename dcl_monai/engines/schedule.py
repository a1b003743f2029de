"""The learning-rate course of the two stages."""

from __future__ import annotations

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

__all__ = ["TwoStageLR"]


class TwoStageLR(LambdaLR):
    """
    Stage 1: linear warm-up to the optimizer's rate, then cosine to zero (or constant); stage 2: a constant rate.

    The paper's course is ``warmup_steps=0, cosine=False`` with 1e-2 in stage 1 and 1e-4 in stage 2.

    Args:
        optimizer: its learning rate is that of stage 1.
        stage1_steps: iterations of stage 1.
        stage2_lr: learning rate of stage 2.
        warmup_steps: iterations of warm-up.
        cosine: whether the rate falls to zero along a cosine during stage 1.
    """

    def __init__(
        self, optimizer: Optimizer, stage1_steps: int, stage2_lr: float, warmup_steps: int = 0, cosine: bool = True
    ) -> None:
        stage1_lr = optimizer.param_groups[0]["lr"]

        def factor(step: int) -> float:
            if step >= stage1_steps:
                return stage2_lr / stage1_lr
            if step < warmup_steps:
                return (step + 1) / warmup_steps
            if not cosine:
                return 1.0
            progress = (step - warmup_steps) / max(1, stage1_steps - warmup_steps)
            return 0.5 * (1.0 + math.cos(math.pi * progress))

        super().__init__(optimizer, factor)
