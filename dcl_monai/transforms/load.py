"""Loading the annotations of an image, whatever kind and however many there are."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import torch
from monai.config import KeysCollection
from monai.data import MetaTensor
from monai.transforms import LoadImage, MapTransform

from dcl_monai.candidates import all_classes, candidate_label
from dcl_monai.datalist.items import SPECIFICATION, annotations_of
from dcl_monai.utils import DataError

from .array import EncodeCandidates, IntersectCandidates

__all__ = ["LoadCandidatesD", "LoadCandidatesDict", "LoadCandidatesd", "same_geometry"]

AFFINE_TOLERANCE_MM = 1e-2


class LoadCandidatesd(MapTransform):
    """
    Load what is known of an image as candidate sets: the label files of an item of a datalist, each encoded by its own
    values, and merged. An image without a label may be anything everywhere.

    The entries that describe the annotations (``values``, ``annotated``, ...) are taken off the item.

    Args:
        keys: key of the label file, which becomes codes with their table, shape (1, H, W[, D]).
        num_classes: number of classes m of the model, background included.
        image_key: key of the image, loaded already, shape (C, H, W[, D]).

    Raises:
        DataError: when a label does not fit its image or the list, or two annotations contradict each other.
    """

    def __init__(self, keys: KeysCollection, num_classes: int, image_key: str = "image") -> None:
        super().__init__(keys)
        self.num_classes = num_classes
        self.image_key = image_key
        # float32 holds no label value above 2**24, of which some atlases have many
        self.load = LoadImage(image_only=True, ensure_channel_first=True, dtype=np.float64)
        self.intersect = IntersectCandidates()

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        d = dict(data)
        image = d[self.image_key]
        labels = [self.encode(annotation, image) for annotation in annotations_of(d)]
        if not labels:
            blank = torch.zeros_like(image[:1], dtype=torch.float32)
            labels = [candidate_label(blank, [all_classes(self.num_classes)], like=image)]
        for key in self.keys:
            d[key] = reduce(self.intersect, labels)
        return {key: value for key, value in d.items() if key not in SPECIFICATION}

    def encode(self, annotation: Mapping[Any, Any], image: torch.Tensor) -> MetaTensor:
        """Load one annotation of ``image``."""
        name = annotation["label"]
        try:
            label = self.load(name)
        except Exception as error:  # the readers raise whatever they like
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise DataError(f"{name}: cannot be read ({reason}). Replace it or remove it from the list.") from error
        if len(label) > 1:
            raise DataError(f"{name}: has {len(label)} channels, but a label has one value per voxel. Save one map.")
        problem = same_geometry(image, label)
        if problem:
            raise DataError(f"{name}: {problem}")
        encode = EncodeCandidates(self.num_classes, annotation.get("values"), annotation.get("unlabelled"))
        coded = encode(label, annotation.get("annotated"))
        if isinstance(image, MetaTensor):
            coded.affine = image.affine  # equal but for rounding: resampled alike, to the same shape
        return coded


def same_geometry(image: torch.Tensor, label: torch.Tensor) -> str | None:
    """Say how image (C, H, W[, D]) and label (1, H, W[, D]) differ in shape or place, or ``None`` if they do not."""
    if image.shape[1:] != label.shape[1:]:
        return (
            f"shape {tuple(label.shape[1:])} differs from {tuple(image.shape[1:])} of its image. Resample the label "
            "onto the image or correct the pair."
        )
    if not isinstance(image, MetaTensor) or not isinstance(label, MetaTensor):
        return None
    offset = float((image.affine - label.affine).abs().max())
    if offset <= AFFINE_TOLERANCE_MM:
        return None
    return (
        f"its affine differs from that of its image by {offset:.3g}. Resample the label onto the image, or copy the "
        "image's header if only the header is wrong."
    )


LoadCandidatesD = LoadCandidatesDict = LoadCandidatesd
