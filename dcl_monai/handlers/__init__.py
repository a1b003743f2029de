"""Handlers: the stages of Algorithm 1, validation of partial labels, vital signs, checkpoints and history."""

from .checkpoint import RunCheckpoint
from .dice_table import DiceTable
from .history import History
from .partial_dice import PartialMeanDice
from .stages import BestModel, DCLEvents, DualWeightSync, StageSwitch
from .training import AverageBuffers, ClipGradients, EpochSeed, LossProgress, SaveNetwork
from .vital_signs import GradientRatio, ShuffleConditions

__all__ = [
    "AverageBuffers",
    "BestModel",
    "ClipGradients",
    "DCLEvents",
    "DiceTable",
    "DualWeightSync",
    "EpochSeed",
    "GradientRatio",
    "History",
    "LossProgress",
    "PartialMeanDice",
    "RunCheckpoint",
    "SaveNetwork",
    "ShuffleConditions",
    "StageSwitch",
]
