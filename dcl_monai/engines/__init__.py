"""The DCL trainer and its learning-rate course."""

from .schedule import TwoStageLR
from .trainer import DCLTrainer, dual_batch

__all__ = ["DCLTrainer", "TwoStageLR", "dual_batch"]
