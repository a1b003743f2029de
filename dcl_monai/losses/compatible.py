"""The compatible loss, Eq. 2-4 and 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from dcl_monai.candidates import assert_candidates

from .averaging import Averaging, make_averaging
from .probabilities import LogProbabilities
from .region import RegionDiceLoss
from .terms import NEGATIVE, POSITIVE, Part, joined

COMBINATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ce": (("ce",), ("ce",)),
    "dice": (("dice",), ("dice",)),
    "ce+dice": (("ce", "dice"), ("ce", "dice")),
    "mmee": (("ta_ce", "ta_dice"), ("ex_ce", "ex_dice")),
}
"""Named combinations: positive parts, negative parts."""


class TermLoss(nn.Module):
    """A loss of partial labels that is the sum of named terms."""

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the loss; the inputs are those of ``terms``."""
        return torch.stack(list(self.terms(*inputs).values())).sum()  # type: ignore[operator]


class CompatibleLoss(TermLoss):
    """
    L_comp = a1 L_P + a2 L_N over known entries only (Eq. 2-4), of m logits, or of 2m (Eq. 6).

    From: Zhang and Zhuang, Deep Compatible Learning for Partially-Supervised Medical Image Segmentation. The ground
    truth is among the minimisers whatever classes are annotated (Propositions 2 and 3).

    Args:
        num_classes: number of classes m, background included.
        combination: ``"ce"``, ``"dice"``, ``"ce+dice"`` or ``"mmee"`` (target adaptive and exclusive, CE and Dice).
        positive: positive parts instead of the combination's: names of :data:`~dcl_monai.losses.terms.POSITIVE`, or
            functions of your own (see :data:`~dcl_monai.losses.terms.Part`).
        negative: the same for the negative parts.
        positive_weight: a1.
        negative_weight: a2.
        averaging: ``"anneal"`` (default), ``"balanced"``, ``"sum"``, or an
            :class:`~dcl_monai.losses.averaging.Averaging`.
        region_weight: weight of the Dice of whole structures beside it (:class:`~dcl_monai.losses.RegionDiceLoss`).

    Raises:
        ValueError: for a name that does not exist, or when there is no part at all.

    Examples:
        >>> loss = CompatibleLoss(num_classes=4, combination="ce", averaging="balanced")
        >>> candidates = torch.ones(2, 4, 8, 8, dtype=torch.bool)   # nothing is known
        >>> float(loss(torch.randn(2, 4, 8, 8), candidates))
        0.0
    """

    def __init__(
        self,
        num_classes: int,
        combination: str = "ce",
        positive: Sequence[str | Part] | None = None,
        negative: Sequence[str | Part] | None = None,
        positive_weight: float = 1.0,
        negative_weight: float = 1.0,
        averaging: str | Averaging = "anneal",
        region_weight: float = 0.0,
    ) -> None:
        super().__init__()
        if combination not in COMBINATIONS:
            raise ValueError(f"unknown combination {combination!r}, choose one of {sorted(COMBINATIONS)}.")
        default_positive, default_negative = COMBINATIONS[combination]
        self.num_classes = num_classes
        self.positive = _parts(default_positive if positive is None else positive, POSITIVE)
        self.negative = _parts(default_negative if negative is None else negative, NEGATIVE)
        if not self.positive and not self.negative:
            raise ValueError("a compatible loss needs a positive or a negative part.")
        self.positive_weight = positive_weight
        self.negative_weight = negative_weight
        self.averaging = make_averaging(averaging)
        self.region = RegionDiceLoss(num_classes)
        self.region_weight = region_weight

    def terms(self, logits: torch.Tensor, candidates: torch.Tensor) -> dict[str, torch.Tensor]:
        """
        The weighted terms, whose sum is the loss.

        Args:
            logits: BN[HWD] with N = m or 2m.
            candidates: boolean Bm[HWD], the candidate sets.

        Returns:
            ``{"positive": scalar, "negative": scalar}``, and ``"region"`` if it has a weight.
        """
        return self.of_probabilities(LogProbabilities.of_classes(logits, self.num_classes), candidates)

    def of_probabilities(self, prob: LogProbabilities, candidates: torch.Tensor) -> dict[str, torch.Tensor]:
        """The same from class probabilities, for those who have them already."""
        if prob.shape != candidates.shape:
            raise ValueError(f"prediction {tuple(prob.shape)} and candidates {tuple(candidates.shape)} differ.")
        assert_candidates(candidates)
        terms = {}
        for name, parts, weight, average in (
            ("positive", self.positive, self.positive_weight, self.averaging.positive),
            ("negative", self.negative, self.negative_weight, self.averaging),
        ):
            if parts:
                per_item = torch.stack([average(*part(prob, candidates)) for part in joined(parts)])
                terms[name] = weight * per_item.sum(0).mean()
        if self.region_weight:
            terms["region"] = self.region_weight * self.region.of_probabilities(prob, candidates)
        return terms


def _parts(parts: Sequence[str | Part], registry: Mapping[str, Part]) -> tuple[Part, ...]:
    for part in parts:
        if isinstance(part, str) and part not in registry:
            raise ValueError(f"unknown part {part!r}, choose one of {sorted(registry)}.")
    return tuple(registry[part] if isinstance(part, str) else part for part in parts)
