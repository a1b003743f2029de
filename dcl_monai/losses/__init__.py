"""Compatible losses (Eq. 2-4, 6-8, 11-18) and the losses they are compared with."""

from .averaging import AnnealedMean, Averaging, BalancedMean, ClassMean, SumMean, set_progress
from .baselines import ConventionalCELoss, IgnoreDiceCELoss
from .compatible import COMBINATIONS, CompatibleLoss
from .deep_supervision import DeepSupervision
from .fill import FillLoss
from .prior import ConditionalCompatibleLoss, PriorLoss
from .probabilities import LogProbabilities, class_probabilities
from .region import RegionDiceLoss
from .staged import StagedLoss

__all__ = [
    "COMBINATIONS",
    "AnnealedMean",
    "Averaging",
    "BalancedMean",
    "ClassMean",
    "CompatibleLoss",
    "ConditionalCompatibleLoss",
    "ConventionalCELoss",
    "DeepSupervision",
    "FillLoss",
    "IgnoreDiceCELoss",
    "LogProbabilities",
    "PriorLoss",
    "RegionDiceLoss",
    "StagedLoss",
    "SumMean",
    "class_probabilities",
    "set_progress",
]
