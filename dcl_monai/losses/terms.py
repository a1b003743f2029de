"""Positive and negative parts of the losses, Eq. 11-18.

Every part is a function f of probabilities (f_P or f_N) at certain entries: it maps class probabilities and candidate
sets to a value per entry and the mask of the entries it applies to. How the entries are averaged is a separate choice
(:mod:`dcl_monai.losses.averaging`). In the paper's notation the mask of L_P is [y_ij = 1], that of L_N is [y_ij = 0].

Two misprints of the paper are corrected here. Eq. 15: both terms carry a minus sign. Eq. 17-18: the merged term at
annotated voxels sums over the classes outside the voxel's candidate set; over c_q, as printed, it would punish the true
class. The merged terms count once per voxel, not once per class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch.autograd.function import once_differentiable

from dcl_monai.candidates import as_numbers, known_positive, number_of_candidates

from .probabilities import LogProbabilities

Part: TypeAlias = Callable[[LogProbabilities, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""``part(prob, candidates) -> values, mask``, with candidates BN[HWD] boolean, values and mask BK[HWD]; the values are
finite also where the mask is not set."""

Entries: TypeAlias = Callable[[LogProbabilities, torch.Tensor], tuple[LogProbabilities, torch.Tensor]]
"""``entries(prob, candidates) -> chosen, mask``: what a part is about, BK[HWD], and which of it counts."""

Pointwise: TypeAlias = Callable[[LogProbabilities], torch.Tensor]
"""f_P(p, 1) of every probability, zero at p = 1 and falling; or f_N(p, 0), zero at p = 0 and growing."""


class PointwisePart:
    """A part of the loss: f_P or f_N, or the sum of several, at the entries that it is about."""

    def __init__(self, entries: Entries, *functions: Pointwise) -> None:
        self.entries = entries
        self.functions = functions

    def __call__(self, prob: LogProbabilities, candidates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See :data:`Part`."""
        chosen, mask = self.entries(prob, candidates)
        return summed(self.functions, chosen), mask


def summed(functions: Sequence[Pointwise], prob: LogProbabilities) -> torch.Tensor:
    """The sum of several f of the same probabilities."""
    first, *others = (f(prob) for f in functions)
    for other in others:
        first = first + other
    return first


def joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """
    The same loss in fewer passes over the voxels: parts of the same entries become one.

    Averages are linear in their values, so the average of the sum is the sum of the averages.
    """
    by_entries: dict[Entries, list[Pointwise]] = {}
    own = []
    for part in parts:
        if type(part) is PointwisePart:
            by_entries.setdefault(part.entries, []).extend(part.functions)
        else:
            own.append(part)
    return *(PointwisePart(entries, *functions) for entries, functions in by_entries.items()), *own


def positive_ce(prob: LogProbabilities) -> torch.Tensor:
    """f_P of cross entropy: -log p."""
    return -prob.log


def positive_dice(prob: LogProbabilities) -> torch.Tensor:
    """f_P of Dice: 1 - 2p / (1 + p), whose derivative is -2 / (1 + p)^2."""
    p = prob.prob
    q = 1.0 / (1.0 + p.detach())
    return WithSlope.apply(p, (1.0 - p.detach()) * q, -2.0 * q * q)


def negative_ce(prob: LogProbabilities) -> torch.Tensor:
    """f_N of cross entropy: -log(1 - p)."""
    return -prob.log_not


def negative_dice(prob: LogProbabilities) -> torch.Tensor:
    """f_N of Dice: 2p / (1 + p), whose derivative is 2 / (1 + p)^2."""
    p = prob.prob
    q = 1.0 / (1.0 + p.detach())
    return WithSlope.apply(p, 2.0 * p.detach() * q, 2.0 * q * q)


def negative_log1p(prob: LogProbabilities) -> torch.Tensor:
    """f_N of the exclusive loss: log(p + epsilon) with epsilon = 1, whose derivative is 1 / (1 + p)."""
    p = prob.prob
    return WithSlope.apply(p, torch.log1p(p.detach()), 1.0 / (1.0 + p.detach()))


class WithSlope(torch.autograd.Function):
    """A function of p of which value and derivative are given: autograd would keep and revisit every step of it."""

    @staticmethod
    def forward(ctx: Any, p: torch.Tensor, value: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(slope)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return slope * grad, None, None


def known(prob: LogProbabilities, candidates: torch.Tensor) -> tuple[LogProbabilities, torch.Tensor]:
    """Entries of Eq. 11 and 13: y where y = 1, the class of a voxel that is known."""
    return prob, known_positive(candidates)


def outside(prob: LogProbabilities, candidates: torch.Tensor) -> tuple[LogProbabilities, torch.Tensor]:
    """Entries of Eq. 12 and 14: y where y = 0, every class that a voxel is known not to have."""
    return prob, ~candidates


def merged(prob: LogProbabilities, candidates: torch.Tensor) -> tuple[LogProbabilities, torch.Tensor]:
    """Entries of Eq. 15-16, target adaptive: the candidates of a voxel, merged, where any class is excluded."""
    return LogProbabilities(prob.log_sum(candidates)), number_of_candidates(candidates) < candidates.shape[1]


class Excluded(LogProbabilities):
    """
    Entries of Eq. 17-18, exclusive: every excluded class, and all of them merged where the voxel's class is known.

    Their logs are not needed beside their probabilities, B(m + 1)[HWD].
    """

    def __init__(self, prob: torch.Tensor) -> None:
        self.prob = prob


def excluded(prob: LogProbabilities, candidates: torch.Tensor) -> tuple[LogProbabilities, torch.Tensor]:
    """See :class:`Excluded`."""
    mask = ~candidates
    together = (prob.prob * as_numbers(mask, prob.prob.dtype)).sum(dim=1, keepdim=True)
    is_known = number_of_candidates(candidates) == 1
    return Excluded(torch.cat([prob.prob, together], dim=1)), torch.cat([mask, is_known], dim=1)


POSITIVE: dict[str, PointwisePart] = {
    "ce": PointwisePart(known, positive_ce),  # Eq. 11
    "dice": PointwisePart(known, positive_dice),  # Eq. 13
    "ta_ce": PointwisePart(merged, positive_ce),  # Eq. 15
    "ta_dice": PointwisePart(merged, positive_dice),  # Eq. 16
}
"""Positive parts L_P by name."""

NEGATIVE: dict[str, PointwisePart] = {
    "ce": PointwisePart(outside, negative_ce),  # Eq. 12
    "dice": PointwisePart(outside, negative_dice),  # Eq. 14
    "ex_ce": PointwisePart(excluded, negative_log1p),  # Eq. 17
    "ex_dice": PointwisePart(excluded, negative_dice),  # Eq. 18
}
"""Negative parts L_N by name."""

POINTWISE_NEGATIVE: dict[str, Pointwise] = {name: part.functions[0] for name, part in NEGATIVE.items()}
"""f_N of every negative part, which the prior loss (Eq. 7) takes over."""
