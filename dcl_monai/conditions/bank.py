"""The conditional bank, which travels inside the model, and the rule that picks conditions from it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

UNKNOWN = 2
"""In the masks of a bank: whether the voxel belongs to the class is not known, as off the strokes of a scribble."""


def centre_fit(images: torch.Tensor, size: list[int]) -> torch.Tensor:
    """Crop or zero-pad images NC[HWD] about their centre, so that grids of one spacing lie on each other."""
    shape = images.shape[2:]
    pad: list[int] = []
    for dim in range(len(size) - 1, -1, -1):
        before = size[dim] // 2 - shape[dim] // 2  # the same middle, whether cropped or padded, odd or even
        pad += [before, size[dim] - shape[dim] - before]
    return F.pad(images, pad)


class SimilarityRule(nn.Module):
    """
    Describe an image by its own coarse appearance, so that its conditions can be picked from the tensor alone.

    The descriptor is the image seen through a wide Gaussian window at its centre, averaged to a coarse grid, with zero
    mean and unit length: the product of two descriptors is their normalised cross-correlation. For each class the
    condition is the entry most similar to the target. Training, validation and the exported model run this same code.

    Entries without descriptors (all zero) are picked at random, as in the paper: by a hash of the target's descriptor,
    so that an image gets the same conditions whenever it is segmented.

    Args:
        grid: cells of the coarse grid along each axis.
        window: standard deviation of the window, as a fraction of the image's size.
    """

    __constants__ = ["grid", "window"]

    def __init__(self, grid: int = 16, window: float = 0.25) -> None:
        super().__init__()
        self.grid = grid
        self.window = window

    def describe(self, images: torch.Tensor) -> torch.Tensor:
        """
        Args:
            images: BC[HWD].

        Returns:
            descriptors of unit length, (B, d).
        """
        images = images.float()
        if images.dim() == 5:
            # two axes at a time: ONNX knows no adaptive pooling of three
            batch, channels, height, grid = images.shape[0], images.shape[1], images.shape[2], self.grid
            coarse = F.adaptive_avg_pool2d(images.flatten(1, 2), grid).reshape(batch, channels, height, grid * grid)
            coarse = F.adaptive_avg_pool2d(coarse, (grid, grid * grid)).reshape(batch, channels, grid, grid, grid)
        else:
            coarse = F.adaptive_avg_pool2d(images, self.grid)
        axis = (torch.arange(self.grid, device=images.device) + 0.5) / self.grid - 0.5
        gauss = torch.exp(-0.5 * (axis / self.window) ** 2)
        coarse = coarse - coarse.flatten(2).mean(2).reshape(
            [coarse.shape[0], coarse.shape[1]] + [1] * (images.dim() - 2)
        )
        for dim in range(2, images.dim()):
            coarse = coarse * gauss.reshape([1] * dim + [-1] + [1] * (images.dim() - 1 - dim))
        return F.normalize(coarse.flatten(1), dim=1)

    def forward(self, described: torch.Tensor, entries: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        """
        Pick the entry of every class that is most similar to the target.

        Args:
            described: descriptors of the targets, (B, d).
            entries: descriptors of the entries of each class, (m, K, d).
            allowed: entries that may be picked, (B, m, K).

        Returns:
            index of an entry per class, (B, m).
        """
        similarity = torch.einsum("bd,mkd->bmk", described, entries)
        picked = similarity.masked_fill(~allowed, -2.0).argmax(dim=2)
        return torch.where((entries == 0).all(), self.at_random(described, allowed), picked)

    def at_random(self, described: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        """Pick an entry of every class by a hash of the target; allowed entries come first. Arguments as above."""
        steps = torch.arange(1, described.shape[1] + 1, device=described.device) * 7919
        number = ((described * 100.0).round().to(torch.int64) * steps).sum(dim=1, keepdim=True)
        classes = torch.arange(allowed.shape[1], device=described.device)
        mixed = ((number + 104729 * classes) * 48271) % 2147483647 // 1024
        return mixed % allowed.sum(dim=2).clamp_min(1)


class ConditionBank(nn.Module):
    """
    Image/label pairs for every class, kept as buffers so that they are saved, exported and served with the weights.

    A new bank is empty; :meth:`fill` or loading a state dict fills it (buffers take the shapes of what is loaded).

    Args:
        rule: how conditions are picked for a target.
    """

    images: torch.Tensor
    masks: torch.Tensor
    valid: torch.Tensor
    descriptors: torch.Tensor

    def __init__(self, rule: "SimilarityRule | None" = None) -> None:
        super().__init__()
        self.rule = SimilarityRule() if rule is None else rule
        for name in ("images", "masks", "valid", "descriptors"):
            self.register_buffer(name, torch.zeros(0))

    def fill(self, images: torch.Tensor, masks: torch.Tensor, valid: torch.Tensor, describe: bool = True) -> None:
        """
        Replace the content of the bank.

        Args:
            images: (m, K, C, H, W[, D]), K image per class.
            masks: (m, K, H, W[, D]), the mask of class j in the images of class j: 1 inside, 0 outside, and
                :data:`UNKNOWN`, which counts as outside in conditions and as nothing in training
                (:class:`dcl_monai.conditions.BankDataset`).
            valid: boolean (m, K), false for the empty places, at the end, of a class with fewer images; a class
                without any is conditioned by the zeros of its first place.
            describe: without descriptors the rule picks at random.
        """
        device = self.images.device
        self.images = images.float().to(device)
        self.masks = masks.to(torch.uint8).to(device)
        self.valid = valid.to(device)
        descriptors = torch.stack([self.rule.describe(entries) for entries in self.images])
        self.descriptors = descriptors if describe else torch.zeros_like(descriptors)

    def describe(self, images: torch.Tensor) -> torch.Tensor:
        """
        Describe images as the rule describes those of the bank.

        Args:
            images: BC[HWD], on a grid of the bank's spacing.

        Returns:
            descriptors, (B, d).
        """
        return self.rule.describe(centre_fit(images, list(self.images.shape[3:])))

    def forward(self, target: torch.Tensor, shift: int = 0, turn: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Pick a condition of every class for each target.

        Args:
            target: BC[HWD], on a grid of the bank's spacing.
            shift: take the entry so many places after the picked one: conditions that do not belong to the target, to
                see whether the network uses them.
            turn: give every class the condition of the class so many places after it, mask included: conditions of the
                wrong class.

        Returns:
            conditional images B(mC)[HWD] and their masks Bm[HWD], on the target's grid.
        """
        if self.images.dim() < 5:
            raise RuntimeError("the conditional bank is empty: load weights that carry one, or fill it.")
        size = list(target.shape[2:])
        described = self.describe(target)
        batch, classes = target.shape[0], self.images.shape[0]
        picked = self.rule(described, self.descriptors, self.valid.unsqueeze(0).expand(batch, -1, -1))
        if shift > 0:
            picked = (picked + shift) % self.valid.sum(dim=1).clamp_min(1)
        index = torch.arange(classes, device=target.device).unsqueeze(0).expand(batch, -1)
        if turn > 0:
            index, picked = index.roll(-turn, 1), picked.roll(-turn, 1)
        images = self.images[index, picked].flatten(1, 2).to(target.dtype)
        masks = (self.masks[index, picked] == 1).to(target.dtype)
        return centre_fit(images, size), centre_fit(masks, size)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        for name in ("images", "masks", "valid", "descriptors"):
            if prefix + name in state_dict:
                setattr(self, name, torch.empty_like(state_dict[prefix + name], device=self.images.device))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
