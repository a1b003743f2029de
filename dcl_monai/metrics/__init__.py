"""Metrics for partial labels."""

from .bounds import Measured, calibrate_bounds, conformal_quantile, expected_dice, measure_structures, structure_bounds
from .partial_dice import PartialDiceMetric, compute_partial_dice
from .surface import compute_surface_distances

__all__ = [
    "Measured",
    "PartialDiceMetric",
    "calibrate_bounds",
    "compute_partial_dice",
    "compute_surface_distances",
    "conformal_quantile",
    "expected_dice",
    "measure_structures",
    "structure_bounds",
]
