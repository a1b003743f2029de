"""The DCL trainer and its learning-rate course."""

from .schedule import TwoStageLR
from .trainer import LOSS_TERMS, DCLTrainer, dual_batch, warp

__all__ = ["LOSS_TERMS", "DCLTrainer", "TwoStageLR", "dual_batch", "warp"]
