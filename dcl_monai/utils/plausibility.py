"""
Does a result look like the images that the model was trained on? Measured against those that it carries.

Folder inference uses it, and the application of MONAI Deploy with the bank of an exported model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from scipy import ndimage

RATIO = 2.0
"""A structure is of unusual size that is so many times larger or smaller than all of the bank."""
MORE_PARTS = 3
"""A structure is in unusually many parts that has so many more than any of the bank."""
SAME = 0.999
"""Two entries that are more similar than this are one image, kept for two classes."""


class Bank(Protocol):
    """What is asked of a :class:`~dcl_monai.conditions.ConditionBank`, or of an exported one."""

    images: torch.Tensor
    masks: torch.Tensor
    valid: torch.Tensor
    descriptors: torch.Tensor

    def describe(self, images: torch.Tensor) -> torch.Tensor: ...


@dataclass(frozen=True)
class Structure:
    """How a class looks in the bank; slices of a 2D network, volumes of a 3D network."""

    smallest: int  # fewest voxels
    largest: int  # most voxels
    parts: int  # most connected parts
    at_border: bool  # whether it reaches the border of the grid


class Plausibility:
    """
    Compare images and segmentations with the conditional bank, all on the network's grid.

    What it says is a hint to look at a case, no proof of a mistake: the bank is small.

    Args:
        bank: the filled bank of a network.
        classes: class names, background first.
    """

    def __init__(self, bank: Bank, classes: Sequence[str]) -> None:
        self.bank = bank
        self.classes = list(classes)
        self.dims = bank.images.dim() - 3
        images = bank.images[bank.valid]
        values = images.flatten(1)
        self.means, self.spreads = _range(values.mean(1)), _range(values.std(1))
        self.similarity = self._least_similarity()
        self.structures = {
            j: structure
            for j in range(1, len(self.classes))
            if (structure := self._structure(bank.masks[j][bank.valid[j]])) is not None
        }

    def _least_similarity(self) -> float:
        """Of all images of the bank, the least that one is similar to its nearest other; -1 if none has another."""
        entries = self.bank.descriptors[self.bank.valid]
        if not entries.any():  # picked at random, without descriptors
            return -1.0
        similarity = entries @ entries.T
        nearest = similarity.masked_fill(similarity > SAME, -1.0).amax(dim=1)
        return float(nearest.min())

    def _structure(self, masks: torch.Tensor) -> Structure | None:
        """What the masks of a class (K, H, W[, D]) have in common; ``None`` where they are not known in full."""
        if not len(masks) or (masks > 1).any():
            return None
        arrays = masks.cpu().numpy() == 1
        sizes = arrays.reshape(len(arrays), -1).sum(1)
        return Structure(
            int(sizes.min()), int(sizes.max()), max(map(_parts, arrays)), any(_at_border(array) for array in arrays)
        )

    def notes(self, image: torch.Tensor, labels: np.ndarray) -> list[str]:
        """
        Say what is unusual.

        Args:
            image: preprocessed, (C, H, W, D).
            labels: what the network says of it, class indices (H, W, D).

        Returns:
            a short sentence each; nothing if the case looks like those of the bank.
        """
        units = image.movedim(-1, 0) if self.dims == 2 else image[None]
        found = list(self._of_image(units.to(self.bank.images.device)))
        cells = np.moveaxis(labels, -1, 0) if self.dims == 2 else labels[None]
        for j, structure in self.structures.items():
            found += [f"{self.classes[j]}: {words}" for words in _of_structure(cells == j, structure)]
        return found

    def _of_image(self, units: torch.Tensor) -> list[str]:
        """What is unusual of the slices of an image, or of the volume, (N, C, H, W[, D])."""
        found = []
        values = units.flatten(1)
        mean, spread = float(values.mean(1).median()), float(values.std(1).median())
        if not (self.means[0] <= mean <= self.means[1] and self.spreads[0] <= spread <= self.spreads[1]):
            found.append("image: its grey values differ from those of the training images")
        described = self.bank.describe(units)
        similarity = float((described @ self.bank.descriptors[self.bank.valid].T).amax(dim=1).median())
        if similarity < self.similarity:
            found.append(
                f"image: does not look like the training images (similarity {similarity:.2f}, theirs "
                f"{self.similarity:.2f} or more)"
            )
        return found


def _of_structure(cells: np.ndarray, structure: Structure) -> list[str]:
    """What is unusual of a structure, drawn in slices or in a volume (N, H, W[, D])."""
    found = []
    largest = int(cells.reshape(len(cells), -1).sum(1).max())
    if not largest:
        return ["found nowhere"]
    if largest > RATIO * structure.largest:
        found.append(f"{largest / structure.largest:.1f} times as large as the largest of the training images")
    if largest * RATIO < structure.smallest:
        found.append(f"{largest / structure.smallest:.2f} times as large as the smallest of the training images")
    parts = max(map(_parts, cells))
    if parts > structure.parts + MORE_PARTS:
        found.append(f"has {parts} parts, in the training images at most {structure.parts}")
    if not structure.at_border and any(map(_at_border, cells)):
        found.append("reaches the border of the network's grid and may be cut off")
    return found


def _parts(mask: np.ndarray) -> int:
    """Number of connected parts."""
    return int(ndimage.label(mask)[1])


def _at_border(mask: np.ndarray) -> bool:
    """Whether a mask reaches the border of its grid."""
    return any(np.take(mask, (0, -1), axis=axis).any() for axis in range(mask.ndim))


def _range(values: torch.Tensor) -> tuple[float, float]:
    """The range of values, and as much again on both sides."""
    low, high = float(values.min()), float(values.max())
    return 2 * low - high, 2 * high - low
