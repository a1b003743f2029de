"""2D training data: slices of volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from monai.data import MetaTensor
from torch.utils.data import Dataset

from dcl_monai.candidates import candidate_sets
from dcl_monai.samples import Sample, Volume


class LastVolume:
    """
    Volumes of which the last one that was asked for stays at hand.

    A pass over pieces in their order so reads every volume once, and never holds more than one, however many there are.
    """

    def __init__(self, volumes: Sequence[Volume]) -> None:
        self.volumes = volumes
        self._last: tuple[int, Volume] | None = None

    def __getitem__(self, index: int) -> Volume:
        if self._last is None or self._last[0] != index:
            self._last = None  # not two at a time
            self._last = (index, self.volumes[index])
        return self._last[1]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}  # workers read their own


class PieceDataset(Dataset):
    """Pieces of preprocessed volumes as items: ``windows`` gives them as indices of a volume's axes, by its size."""

    def __init__(
        self, volumes: Sequence[Volume], windows: Callable[[Sequence[int]], Iterable[tuple[Any, ...]]]
    ) -> None:
        self.volumes = LastVolume(volumes)
        self.places = [(v, w) for v in range(len(volumes)) for w in windows(self.volumes[v]["image"].shape[1:])]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Sample:
        volume, window = self.places[index]
        item, piece = self.volumes[volume], (..., *window)
        return {
            "image": plain(item["image"])[piece],
            "label": plain(item["label"])[piece],
            "sets": candidate_sets(item["label"]),
            "subject": item["subject"],
        }


class SliceDataset(PieceDataset):
    """
    The slices of preprocessed volumes, along their last axis.

    Args:
        volumes: the volumes; best cached (:func:`dcl_monai.data.cached_dataset`), since slices are asked for in any
            order.
    """

    def __init__(self, volumes: Sequence[Volume]) -> None:
        super().__init__(volumes, lambda shape: ((k,) for k in range(shape[-1])))


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Drop metadata: arithmetic on MetaTensors is slow, and the trainer needs none of it."""
    return tensor.as_tensor() if isinstance(tensor, MetaTensor) else torch.as_tensor(tensor)
