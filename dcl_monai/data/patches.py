"""3D training data: patches of volumes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from dcl_monai.samples import Volume

from .slices import PieceDataset


class PatchDataset(PieceDataset):
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
        def windows(shape: Sequence[int]) -> Iterator[tuple[slice, ...]]:
            places = (_starts(size, patch, overlap) for size, patch in zip(shape, patch_size, strict=True))
            for starts in product(*places):
                yield tuple(slice(start, start + patch) for start, patch in zip(starts, patch_size, strict=True))

        super().__init__(volumes, windows)


def _starts(size: int, patch: int, overlap: float) -> list[int]:
    """Places of patches along an axis: from one border to the other, evenly spaced."""
    if size < patch:
        raise ValueError(f"a volume of size {size} is smaller than the patch of {patch}: pad it first.")
    steps = int(np.ceil((size - patch) / max(patch * (1.0 - overlap), 1.0)))
    return np.unique(np.rint(np.linspace(0, size - patch, steps + 1)).astype(int)).tolist()
