"""Metrics for partial labels."""

from .partial_dice import PartialDiceMetric, compute_partial_dice
from .surface import compute_surface_distances

__all__ = ["PartialDiceMetric", "compute_partial_dice", "compute_surface_distances"]
