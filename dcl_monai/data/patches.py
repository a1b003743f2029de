"""3D training data: patches of volumes, and how often each is drawn."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, Sampler

from dcl_monai.candidates import candidate_sets

from .dataset import plain

__all__ = ["CandidateSampler", "PatchDataset"]


class PatchDataset(Dataset):
    """
    Overlapping patches of preprocessed volumes, on a fixed grid of places.

    Like the slices of a stack, patches are items of their own: the rule that picks conditions compares patches, so a
    patch of the left ventricle is conditioned by patches that look like it, which lie at the corresponding place of
    another heart, and the exported model can do the same with the one window it is given.

    Args:
        volumes: items with ``image`` (C, H, W, D), coded ``label`` (1, H, W, D) and ``subject``, each at least as large
            as a patch; cached, since every patch is cut from its volume each time.
        patch_size: size of a patch.
        overlap: part of the patch that neighbours share, along every axis.
    """

    def __init__(
        self, volumes: Sequence[Mapping[Hashable, Any]], patch_size: Sequence[int], overlap: float = 0.5
    ) -> None:
        self.volumes = volumes
        self.patch_size = tuple(patch_size)
        self.places = [
            (v, starts)
            for v, volume in enumerate(volumes)
            for starts in product(
                *(
                    _starts(size, patch, overlap)
                    for size, patch in zip(volume["image"].shape[1:], self.patch_size, strict=True)
                )
            )
        ]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return ``image`` (C, \\*patch), ``label`` codes (1, \\*patch), their ``sets``, and ``subject``."""
        volume, starts = self.places[index]
        item = self.volumes[volume]
        window = (slice(None), *(slice(a, a + n) for a, n in zip(starts, self.patch_size, strict=True)))
        return {
            "image": plain(item["image"])[window],
            "label": plain(item["label"])[window],
            "sets": candidate_sets(item["label"]),
            "subject": item["subject"],
        }


class CandidateSampler(Sampler[int]):
    """
    Draw items so that every class is seen often enough: a class at random, then an item in which it is drawn.

    An item shows a class where a voxel's candidate set is that class alone. Half of the draws are of any item, so that
    nothing is left out, unlabelled images included. Like torch's own samplers it draws from torch's generator, which
    :class:`dcl_monai.handlers.EpochSeed` seeds anew for every epoch and rank.

    Args:
        items: items with ``label`` codes and their ``sets``, such as a :class:`PatchDataset`.
        num_classes: number of classes m.
        num_samples: draws per epoch, default: one for every item.
    """

    def __init__(self, items: Sequence[Mapping[str, Any]], num_classes: int, num_samples: int | None = None) -> None:
        self.num_samples = len(items) if num_samples is None else num_samples
        self.everything = len(items)
        self.showing: list[list[int]] = [[] for _ in range(num_classes)]
        for index in range(len(items)):
            item = items[index]
            drawn = {item["sets"][int(code)] for code in torch.unique(item["label"])}
            for j in range(num_classes):
                if 1 << j in drawn:
                    self.showing[j].append(index)

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng(int(torch.randint(2**62, ())))
        classes = [members for members in self.showing if members]
        for _ in range(self.num_samples):
            if not classes or rng.random() < 0.5:
                yield int(rng.integers(self.everything))
            else:
                yield int(rng.choice(classes[rng.integers(len(classes))]))


def _starts(size: int, patch: int, overlap: float) -> list[int]:
    """Places of patches along an axis: from one border to the other, evenly spaced."""
    if size < patch:
        raise ValueError(f"a volume of size {size} is smaller than the patch of {patch}: pad it first.")
    steps = int(np.ceil((size - patch) / max(patch * (1.0 - overlap), 1.0)))
    return np.unique(np.rint(np.linspace(0, size - patch, steps + 1)).astype(int)).tolist()
