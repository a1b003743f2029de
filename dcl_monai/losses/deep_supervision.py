"""Deep supervision for losses of partial labels."""

from __future__ import annotations

import torch
from torch import nn

from .compatible import TermLoss


class DeepSupervision(TermLoss):
    """
    Average a loss over the heads of a deeply supervised network, each with half the weight of the finer one before.

    MONAI's DynUNet brings its heads to full size, so every head sees the candidate sets as they are; there is no
    coarse label whose voxels would mix classes. (:py:class:`monai.losses.DeepSupervisionLoss` takes one target, our
    losses take conditions as well.)

    Args:
        loss: a loss of partial labels, with or without ``terms``.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def terms(
        self, logits: torch.Tensor, candidates: torch.Tensor, *conditions: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """
        The terms of the loss, averaged over the heads.

        Args:
            logits: BkN[HWD] of k heads, fine to coarse, or BN[HWD] of a network in evaluation mode.
            candidates: boolean Bm[HWD].
            *conditions: what else the loss takes: ``cond_mask`` and ``cond_known``.
        """
        if logits.dim() == candidates.dim():
            return self._of_head(logits, candidates, *conditions)
        heads = list(logits.unbind(1))
        weights = [0.5**k for k in range(len(heads))]
        total: dict[str, torch.Tensor] = {}
        for weight, head in zip(weights, heads, strict=True):
            for name, value in self._of_head(head, candidates, *conditions).items():
                total[name] = total.get(name, value.new_zeros(())) + weight / sum(weights) * value
        return total

    def _of_head(
        self, logits: torch.Tensor, candidates: torch.Tensor, *conditions: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        terms = getattr(self.loss, "terms", None)
        return terms(logits, candidates, *conditions) if terms else {"supervised": self.loss(logits, candidates)}
