"""Handlers: the stages of Algorithm 1, validation of partial labels, vital signs, checkpoints, history
and test tables."""

from .case_tables import ConfusionTable, SavePredictions, SurfaceTable
from .checkpoint import RunCheckpoint
from .dice_table import DiceTable
from .history import History
from .partial_dice import PartialMeanDice
from .parts import SingleParts, largest_parts
from .served import FreezeStatistics, UpdateServedModel
from .stages import BestModel, DCLEvents, DualWeightAverage, DualWeightSync, StageSwitch
from .training import AverageBuffers, ClipGradients, EpochSeed, LossProgress, SaveNetwork
from .vital_signs import GradientRatio, ShuffleConditions

__all__ = [
    "AverageBuffers",
    "BestModel",
    "ClipGradients",
    "ConfusionTable",
    "DCLEvents",
    "DiceTable",
    "DualWeightAverage",
    "DualWeightSync",
    "EpochSeed",
    "FreezeStatistics",
    "GradientRatio",
    "History",
    "LossProgress",
    "PartialMeanDice",
    "RunCheckpoint",
    "SaveNetwork",
    "SavePredictions",
    "ShuffleConditions",
    "SingleParts",
    "StageSwitch",
    "SurfaceTable",
    "UpdateServedModel",
    "largest_parts",
]
