"""The learning-rate course of the two stages."""

from __future__ import annotations

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from dcl_monai.utils import as_bool


class TwoStageLR(LambdaLR):
    """
    In each of the two stages: linear warm-up to the rate of the stage, then cosine to zero (or constant). MONAI's
    ``WarmupCosineSchedule`` has one stage, whose length is fixed.

    The paper's course is ``warmup_steps=0, cosine=False`` with 1e-2 in stage 1 and 1e-4 in stage 2.

    Args:
        optimizer: its learning rate is that of stage 1.
        stage1_steps: iterations of stage 1.
        stage2_steps: iterations of stage 2; the attribute of that name may be changed while training goes on.
        stage2_lr: learning rate of stage 2.
        warmup_steps: iterations of warm-up.
        cosine: whether the rate falls to zero along a cosine.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        stage1_steps: int,
        stage2_steps: int,
        stage2_lr: float,
        warmup_steps: int = 0,
        cosine: bool | str = True,
    ) -> None:
        cosine = as_bool(cosine)
        stage1_lr = optimizer.param_groups[0]["lr"]
        self.stage2_steps = stage2_steps

        def course(step: int, steps: int) -> float:
            if step < warmup_steps:
                return (step + 1) / warmup_steps
            if not cosine:
                return 1.0
            progress = min((step - warmup_steps) / max(1, steps - warmup_steps), 1.0)
            return 0.5 * (1.0 + math.cos(math.pi * progress))

        def factor(step: int) -> float:
            if step < stage1_steps:
                return course(step, stage1_steps)
            return stage2_lr / stage1_lr * course(step - stage1_steps, self.stage2_steps)

        super().__init__(optimizer, factor)
