"""Positive and negative parts of the losses, Eq. 11-18.

Every part maps class probabilities and candidate sets to a value per entry and the mask of the entries it applies to;
how the entries are averaged is a separate choice (:mod:`dcl_monai.losses.averaging`). In the paper's notation the mask
of L_P is [y_ij = 1], that of L_N is [y_ij = 0].

Two misprints of the paper are mended here. Eq. 15: both terms carry a minus sign. Eq. 17-18: the merged term at
annotated voxels sums over the classes outside the voxel's candidate set; over c_q, as printed, it would punish the true
class. The merged terms count once per voxel, not once per class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch

from dcl_monai.candidates import known_positive

from .probabilities import LogProbabilities

__all__ = ["NEGATIVE", "POINTWISE_NEGATIVE", "POSITIVE", "Part", "PointwiseNegative"]

Part: TypeAlias = Callable[[LogProbabilities, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""``part(prob, candidates) -> values, mask``, with candidates BN[HWD] boolean, values and mask BK[HWD]."""

PointwiseNegative: TypeAlias = Callable[[LogProbabilities], torch.Tensor]
"""f_N(p, 0) of every probability: zero at p = 0 and growing."""


def negative_ce(prob: LogProbabilities) -> torch.Tensor:
    """f_N of cross entropy: -log(1 - p)."""
    return -prob.log_not


def negative_dice(prob: LogProbabilities) -> torch.Tensor:
    """f_N of Dice: 2p / (1 + p)."""
    return 2.0 * prob.prob / (1.0 + prob.prob)


def negative_log1p(prob: LogProbabilities) -> torch.Tensor:
    """f_N of the exclusive loss: log(p + epsilon) with epsilon = 1."""
    return torch.log1p(prob.prob)


def ce_positive(prob: LogProbabilities, candidates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eq. 11: -log y where y = 1."""
    return -prob.log, known_positive(candidates)


def ce_negative(prob: LogProbabilities, candidates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eq. 12: -log(1 - y) where y = 0."""
    return negative_ce(prob), ~candidates


def dice_positive(prob: LogProbabilities, candidates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eq. 13: 1 - 2y / (1 + y) where y = 1."""
    return (1.0 - prob.prob) / (1.0 + prob.prob), known_positive(candidates)


def dice_negative(prob: LogProbabilities, candidates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eq. 14: 2y / (1 + y) where y = 0."""
    return negative_dice(prob), ~candidates


def ta_ce(prob: LogProbabilities, candidates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eq. 15, target adaptive: -log of the summed probability of the candidates, once per voxel that excludes any."""
    return -prob.log_sum(candidates), ~candidates.all(dim=1, keepdim=True)


def ta_dice(prob: LogProbabilities, candidates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eq. 16, target adaptive in Dice form: 1 - 2P / (1 + P) for the summed probability P of the candidates."""
    merged = (prob.prob * candidates).sum(dim=1, keepdim=True)
    return (1.0 - merged) / (1.0 + merged), ~candidates.all(dim=1, keepdim=True)


def excluded(prob: LogProbabilities, candidates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Entries of the exclusive loss: every excluded class, and all of them merged where the voxel's class is known.

    Returns:
        the probabilities and the mask of the entries, both B(m + 1)[HWD].
    """
    merged = (prob.prob * ~candidates).sum(dim=1, keepdim=True)
    is_known = candidates.sum(dim=1, keepdim=True) == 1
    return torch.cat([prob.prob, merged], dim=1), torch.cat([~candidates, is_known], dim=1)


def ex_ce(prob: LogProbabilities, candidates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eq. 17, exclusive: log(y + 1) where y = 0, and of their sum where the voxel's class is known."""
    entries, mask = excluded(prob, candidates)
    return torch.log1p(entries), mask


def ex_dice(prob: LogProbabilities, candidates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eq. 18, exclusive in Dice form: 2y / (1 + y) where y = 0, and of their sum where the voxel's class is known."""
    entries, mask = excluded(prob, candidates)
    return 2.0 * entries / (1.0 + entries), mask


POSITIVE: dict[str, Part] = {"ce": ce_positive, "dice": dice_positive, "ta_ce": ta_ce, "ta_dice": ta_dice}
"""Positive parts L_P by name."""

NEGATIVE: dict[str, Part] = {"ce": ce_negative, "dice": dice_negative, "ex_ce": ex_ce, "ex_dice": ex_dice}
"""Negative parts L_N by name."""

POINTWISE_NEGATIVE: dict[str, PointwiseNegative] = {
    "ce": negative_ce,
    "dice": negative_dice,
    "ex_ce": negative_log1p,
    "ex_dice": negative_dice,
}
"""f_N of every negative part, which the prior loss (Eq. 7) takes over."""
