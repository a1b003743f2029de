"""Metrics for partial labels."""

from .partial_dice import PartialDiceMetric, compute_partial_dice

__all__ = ["PartialDiceMetric", "compute_partial_dice"]
