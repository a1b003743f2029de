"""How the entries of a loss are averaged over voxels: a named choice, because it decides most in practice.

The paper sums over all entries. One structure of a short-axis slice covers about 2% of the voxels, so the plain sum is
ruled by the "outside" entries and starves small structures for a long time; the balanced mean learns all structures at
once but draws them too large. The annealed average starts with the second and ends with the first.
"""

from __future__ import annotations

import torch
from torch import nn

from dcl_monai.candidates import as_numbers


class Scheduled(nn.Module):
    """
    A part of a loss that changes over training.

    ``progress`` (0 at the start of training, 1 at the end of its course) is set by
    :class:`dcl_monai.handlers.LossProgress` through :func:`set_progress`.
    """

    progress: float = 0.0


class Averaging(nn.Module):
    """
    Reduce the entries of one part of a loss to a value per item, independent of the item's batch mates.

    It must be linear in the values, because parts with the same entries are summed before.
    """

    def forward(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """
        Args:
            values: BK[HWD], the loss of every entry, finite also where it does not count.
            mask: BK[HWD], the entries that count; a boolean, or a weight between 0 and 1.

        Returns:
            shape (B,).
        """
        raise NotImplementedError

    def positive(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The same for the positive part L_P, whose entries of class j are those known to be j."""
        return self(values, mask)


def masked_sum(values: torch.Tensor, mask: torch.Tensor, start_dim: int = 1) -> torch.Tensor:
    """Sum the entries over all dimensions from ``start_dim``; what is masked out has no value and no gradient."""
    # all values are finite, so a product will do, which is several times faster than torch.where on a CPU
    return (values * as_numbers(mask, values.dtype)).flatten(start_dim).sum(start_dim)


class SumMean(Averaging):
    """The paper's sum, divided by the number of voxels (a constant)."""

    def forward(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return masked_sum(values, mask) / values[0, 0].numel()


class BalancedMean(Averaging):
    """The mean over the part's own entries in the item; zero where it has none."""

    def forward(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        # Soft weights (the dual pass) are counted without gradient: the average is a choice, not something to learn.
        weights = as_numbers(mask, values.dtype)
        return masked_sum(values, weights) / self.count(weights)

    def count(self, weights: torch.Tensor) -> torch.Tensor:
        """The number of entries per item, shape (B,), at least 1."""
        return weights.detach().flatten(1).sum(1).clamp_min(1.0)


class ClassMean(Averaging):
    """The mean over the classes that have entries in the item, each by the mean over its own entries."""

    def forward(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        weights = as_numbers(mask, values.dtype)
        counts = weights.detach().flatten(2).sum(2)
        means = masked_sum(values, weights, start_dim=2) / counts.clamp_min(1.0)
        return means.sum(1) / (counts > 0).sum(1).clamp_min(1)


class AnnealedMean(Averaging, Scheduled):
    """
    Begins as the balanced mean and changes linearly to ``scale`` times the sum per voxel.

    Args:
        start: progress until which the balanced mean is used alone.
        end: progress from which the sum is used alone.
        scale: factor of the sum, which keeps the size of the gradient alike.
        class_balanced: let the classes of an image count alike in the positive part of the balanced mean. Where one
            class is annotated per image nothing changes; where several are, a small structure counts as much as a large
            one. It needs parts with an entry per class (``ce``, ``dice``); in merged ones (``ta``) nothing changes.
    """

    def __init__(self, start: float = 0.25, end: float = 0.6, scale: float = 3.0, class_balanced: bool = False) -> None:
        super().__init__()
        if not 0.0 <= start < end:
            raise ValueError(f"the average must start to change before it ends: start={start}, end={end}.")
        self.start, self.end, self.scale = start, end, scale
        self.balanced, self.sum = BalancedMean(), SumMean()
        self.balanced_positive = ClassMean() if class_balanced else self.balanced

    @property
    def weight(self) -> float:
        """Weight of the sum, 0 to 1."""
        return min(max((self.progress - self.start) / (self.end - self.start), 0.0), 1.0)

    def forward(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self._annealed(self.balanced, values, mask)

    def positive(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self._annealed(self.balanced_positive, values, mask)

    def _annealed(self, balanced: Averaging, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        mask = as_numbers(mask, values.dtype)
        if self.weight == 0.0:
            return balanced(values, mask)
        if self.weight < 1.0 and isinstance(balanced, BalancedMean):
            summed = masked_sum(values, mask)  # once for both
            total = self.scale * (summed / values[0, 0].numel())
            return torch.lerp(summed / balanced.count(mask), total, self.weight)
        total = self.scale * self.sum(values, mask)
        if self.weight == 1.0:
            return total
        return torch.lerp(balanced(values, mask), total, self.weight)


AVERAGING: dict[str, type[Averaging]] = {"sum": SumMean, "balanced": BalancedMean, "anneal": AnnealedMean}
"""Averages by name."""


def make_averaging(averaging: str | Averaging) -> Averaging:
    """Return the average of a name, or the one given."""
    if isinstance(averaging, Averaging):
        return averaging
    if averaging not in AVERAGING:
        raise ValueError(f"unknown averaging {averaging!r}, choose one of {sorted(AVERAGING)}.")
    return AVERAGING[averaging]()


def set_progress(loss: nn.Module, progress: float) -> None:
    """Tell every scheduled part of ``loss`` how far training has come, 0 to 1."""
    for module in loss.modules():
        if isinstance(module, Scheduled):
            module.progress = progress
