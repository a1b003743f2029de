"""The DCL trainer and its learning-rate course."""

from .schedule import TwoStageLR
from .trainer import LOSS_TERMS, DCLTrainer, dual_batch, first_output, warp

__all__ = ["LOSS_TERMS", "DCLTrainer", "TwoStageLR", "dual_batch", "first_output", "warp"]
