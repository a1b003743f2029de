"""2D training data: slices of volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from monai.data import MetaTensor
from torch.utils.data import Dataset

from dcl_monai.candidates import candidate_sets
from dcl_monai.samples import Sample, Volume

__all__ = ["LastVolume", "SliceDataset", "plain"]


class LastVolume:
    """
    Volumes of which the last one that was asked for stays at hand.

    A pass over pieces in their order so reads every volume once, and never holds more than one, however many there are.

    Args:
        volumes: the volumes, read whenever one is asked for; or a cache of them.
    """

    def __init__(self, volumes: Sequence[Volume]) -> None:
        self.volumes = volumes
        self._last: tuple[int, Volume] | None = None

    def __len__(self) -> int:
        return len(self.volumes)

    def __getitem__(self, index: int) -> Volume:
        if self._last is None or self._last[0] != index:
            self._last = None  # not two at a time
            self._last = (index, self.volumes[index])
        return self._last[1]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}  # workers read their own


class SliceDataset(Dataset):
    """
    The slices of preprocessed volumes, along their last axis.

    Args:
        volumes: the volumes; best cached (:func:`dcl_monai.data.cached_dataset`), since slices are asked for in any
            order.
    """

    def __init__(self, volumes: Sequence[Volume]) -> None:
        self.volumes = LastVolume(volumes)
        depths = (self.volumes[v]["image"].shape[-1] for v in range(len(volumes)))
        self.places = [(v, k) for v, depth in enumerate(depths) for k in range(depth)]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Sample:
        volume, k = self.places[index]
        item = self.volumes[volume]
        image, label = item["image"], item["label"]
        return {
            "image": plain(image)[..., k],
            "label": plain(label)[..., k],
            "sets": candidate_sets(label),
            "subject": item["subject"],
        }


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Drop metadata: arithmetic on MetaTensors is slow, and the trainer needs none of it."""
    return tensor.as_tensor() if isinstance(tensor, MetaTensor) else torch.as_tensor(tensor)
