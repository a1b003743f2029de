"""3D training data: patches of volumes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from torch.utils.data import Dataset

from dcl_monai.candidates import candidate_sets
from dcl_monai.samples import Sample, Volume

from .slices import LastVolume, plain

__all__ = ["PatchDataset"]


class PatchDataset(Dataset):
    """
    Overlapping patches of preprocessed volumes, on a fixed grid of places.

    Like the slices of a stack, patches are items of their own: the rule that picks conditions compares patches, so a
    patch of the left ventricle is conditioned by patches that look like it, which lie at the corresponding place of
    another heart, and the exported model can do the same with the one window it is given.

    Args:
        volumes: the volumes, each at least as large as a patch; best cached (:func:`dcl_monai.data.cached_dataset`),
            since patches are asked for in any order.
        patch_size: size of a patch.
        overlap: part of the patch that neighbours share, along every axis.
    """

    def __init__(self, volumes: Sequence[Volume], patch_size: Sequence[int], overlap: float = 0.5) -> None:
        self.volumes = LastVolume(volumes)
        self.patch_size = tuple(patch_size)
        shapes = (self.volumes[v]["image"].shape[1:] for v in range(len(volumes)))
        self.places = [
            (v, starts)
            for v, shape in enumerate(shapes)
            for starts in product(
                *(_starts(size, patch, overlap) for size, patch in zip(shape, self.patch_size, strict=True))
            )
        ]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Sample:
        volume, starts = self.places[index]
        item = self.volumes[volume]
        window = (slice(None), *(slice(a, a + n) for a, n in zip(starts, self.patch_size, strict=True)))
        return {
            "image": plain(item["image"])[window],
            "label": plain(item["label"])[window],
            "sets": candidate_sets(item["label"]),
            "subject": item["subject"],
        }


def _starts(size: int, patch: int, overlap: float) -> list[int]:
    """Places of patches along an axis: from one border to the other, evenly spaced."""
    if size < patch:
        raise ValueError(f"a volume of size {size} is smaller than the patch of {patch}: pad it first.")
    steps = int(np.ceil((size - patch) / max(patch * (1.0 - overlap), 1.0)))
    return np.unique(np.rint(np.linspace(0, size - patch, steps + 1)).astype(int)).tolist()
