"""Handlers: the stages of Algorithm 1, validation of partial labels, diagnostics, checkpoints, history
and test tables."""

from .bounds_table import BoundsTable
from .breakdown import StopOnBreakdown
from .case_tables import CaseDetails, ConfusionTable, SavePredictions, SurfaceTable
from .checkpoint import RunCheckpoint
from .diagnostics import GradientRatio, ShuffleConditions
from .dice_table import DiceTable
from .history import History
from .logs import Progress, TensorBoard
from .partial_dice import PartialMeanDice
from .parts import SingleParts, largest_parts
from .served import FreezeStatistics, UpdateServedModel
from .stages import BestModel, DCLEvents, DualWeightAverage, DualWeightSync, StageSwitch
from .time_budget import Schedule, TimeBudget
from .training import (
    AverageBuffers,
    ClipGradients,
    EpochSeed,
    LossProgress,
    RankTimeout,
    SaveNetwork,
    StageValidation,
)

__all__ = [
    "AverageBuffers",
    "BestModel",
    "BoundsTable",
    "CaseDetails",
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
    "Progress",
    "RankTimeout",
    "RunCheckpoint",
    "SaveNetwork",
    "SavePredictions",
    "Schedule",
    "ShuffleConditions",
    "SingleParts",
    "StageSwitch",
    "StageValidation",
    "StopOnBreakdown",
    "SurfaceTable",
    "TensorBoard",
    "TimeBudget",
    "UpdateServedModel",
    "largest_parts",
]
