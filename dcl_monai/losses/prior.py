"""The prior loss (Eq. 7) and the conditional compatible loss (Eq. 8)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from .averaging import Averaging, make_averaging
from .compatible import COMBINATIONS, CompatibleLoss, TermLoss
from .probabilities import LogProbabilities
from .terms import POINTWISE_NEGATIVE, Pointwise, summed


class PriorLoss(nn.Module):
    """
    L_prior (Eq. 7): outside the conditional label the intersection is zero, inside it the extra is zero.

    Args:
        num_classes: number of classes m.
        negative: f_N by name (:data:`~dcl_monai.losses.terms.POINTWISE_NEGATIVE`), or functions of your own.
        averaging: see :class:`~dcl_monai.losses.CompatibleLoss`.

    Raises:
        ValueError: for a name that does not exist.
    """

    def __init__(
        self,
        num_classes: int,
        negative: Sequence[str | Pointwise] = ("ce",),
        averaging: str | Averaging = "anneal",
    ) -> None:
        super().__init__()
        for name in negative:
            if isinstance(name, str) and name not in POINTWISE_NEGATIVE:
                raise ValueError(f"unknown f_N {name!r}, choose one of {sorted(POINTWISE_NEGATIVE)}.")
        self.num_classes = num_classes
        self.negative = tuple(POINTWISE_NEGATIVE[f] if isinstance(f, str) else f for f in negative)
        self.averaging = make_averaging(averaging)

    def forward(
        self, logits: torch.Tensor, cond_mask: torch.Tensor, cond_known: torch.Tensor | None = None
    ) -> torch.Tensor:
        """
        Args:
            logits: B(2m)[HWD], intersections then extras.
            cond_mask: Bm[HWD], channel j is the label of class j in its conditional image: 0 or 1, or a probability in
                the dual pass, where the two terms are weighted by (1 - y, y).
            cond_known: boolean Bm[HWD], where that label is known; default: everywhere.
        """
        return self.of_probabilities(LogProbabilities.of_channels(logits), cond_mask, cond_known)

    def of_probabilities(
        self, prob: LogProbabilities, cond_mask: torch.Tensor, cond_known: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The same from the probabilities of the 2m channels, for those who have them already."""
        if prob.log.shape[1] != 2 * self.num_classes:
            raise ValueError(f"the prior needs {2 * self.num_classes} channels, got {prob.log.shape[1]}.")
        soft = cond_mask.is_floating_point()
        inside, outside = (cond_mask, 1.0 - cond_mask) if soft else (cond_mask, ~cond_mask)
        if cond_known is not None:
            inside, outside = (
                (inside * cond_known, outside * cond_known) if soft else (inside & cond_known, outside & cond_known)
            )
        if soft:
            of_cap, of_delta = (summed(self.negative, share) for share in prob.split())
        else:  # every entry is about one of the two
            of_cap = of_delta = summed(self.negative, prob.either(inside))
        return (self.averaging(of_cap, outside) + self.averaging(of_delta, inside)).mean()


class ConditionalCompatibleLoss(TermLoss):
    """
    L_cc = L_comp + w L_prior (Eq. 8); the paper has w = 1. f_N of the prior is that of the chosen combination.

    Args:
        num_classes: number of classes m.
        combination: see :class:`~dcl_monai.losses.CompatibleLoss`.
        prior_weight: w; at 0 the prior is left out (row #4 of the ablation).
        averaging: see :class:`~dcl_monai.losses.CompatibleLoss`.
        region_weight: see :class:`~dcl_monai.losses.CompatibleLoss`.
    """

    def __init__(
        self,
        num_classes: int,
        combination: str = "ce",
        prior_weight: float = 1.0,
        averaging: str | Averaging = "anneal",
        region_weight: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.compatible = CompatibleLoss(num_classes, combination, averaging=averaging, region_weight=region_weight)
        self.prior = PriorLoss(num_classes, COMBINATIONS[combination][1], averaging=averaging)
        self.prior_weight = prior_weight

    def terms(
        self,
        logits: torch.Tensor,
        candidates: torch.Tensor,
        cond_mask: torch.Tensor,
        cond_known: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """
        The weighted terms ``positive``, ``negative``, ``region`` and ``prior``, whose sum is the loss.

        Args:
            logits: B(2m)[HWD], intersections then extras.
            candidates: boolean Bm[HWD], the candidate sets of the target.
            cond_mask: Bm[HWD], see :class:`PriorLoss`.
            cond_known: boolean Bm[HWD], see :class:`PriorLoss`.
        """
        channels = LogProbabilities.of_channels(logits)
        terms = self.compatible.of_probabilities(channels.merged(self.num_classes), candidates)
        if self.prior_weight:
            terms["prior"] = self.prior_weight * self.prior.of_probabilities(channels, cond_mask, cond_known)
        return terms
