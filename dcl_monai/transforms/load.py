"""Loading the annotations of an image, whatever kind and however many there are."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import reduce
from typing import Any, cast

import torch
from monai.config import KeysCollection
from monai.data import MetaTensor
from monai.transforms import MapTransform

from dcl_monai.candidates import all_classes, candidate_label, candidate_sets
from dcl_monai.datalist.items import SPECIFICATION, Annotation, Item, annotations_of
from dcl_monai.utils import DataError

from .array import EncodeCandidates, IntersectCandidates
from .files import contradiction, count_values, file_of, geometry_mistakes, read_label

__all__ = ["LoadCandidatesD", "LoadCandidatesDict", "LoadCandidatesd"]


class LoadCandidatesd(MapTransform):
    """
    Load what is known of an image as candidate sets: the label files of an item of a datalist, each encoded by its own
    values, and merged. An image without a label may be anything everywhere.

    The entries that describe the annotations (``values``, ``annotated``, ...) are taken off the item.

    Args:
        keys: key of the label file, which becomes codes with their table, shape (1, H, W[, D]).
        num_classes: number of classes m of the model, background included.
        image_key: key of the image, loaded already, shape (C, H, W[, D]).
        classes: class names, for messages; default: their numbers.

    Raises:
        DataError: when a label does not fit its image or the list, or two annotations contradict each other; in the
            words of ``check`` (:mod:`dcl_monai.transforms.files`).
    """

    def __init__(
        self, keys: KeysCollection, num_classes: int, image_key: str = "image", classes: Sequence[str] | None = None
    ) -> None:
        super().__init__(keys)
        self.num_classes = num_classes
        self.image_key = image_key
        self.classes = [f"class {j}" for j in range(num_classes)] if classes is None else list(classes)
        self.intersect = IntersectCandidates()

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        d = dict(data)
        image = d[self.image_key]
        annotations = annotations_of(cast(Item, d))  # but for its image, which is loaded
        labels = [self.encode(annotation, image) for annotation in annotations]
        if len(labels) > 1:
            self.compare([annotation["label"] for annotation in annotations], labels, image)
        if not labels:
            blank = torch.zeros_like(image[:1], dtype=torch.float32)
            labels = [candidate_label(blank, [all_classes(self.num_classes)], like=image)]
        for key in self.keys:
            d[key] = reduce(self.intersect, labels)
        return {key: value for key, value in d.items() if key not in SPECIFICATION}

    def encode(self, annotation: Annotation, image: torch.Tensor) -> MetaTensor:
        """Load one annotation of ``image``."""
        name = annotation["label"]
        label = read_label(name)
        for mistake in geometry_mistakes(name, label, image):
            raise DataError(mistake.message)
        encode = EncodeCandidates(self.num_classes, annotation.get("values"), annotation.get("unlabelled"))
        coded = encode(label, annotation.get("annotated"))
        if isinstance(image, MetaTensor):
            coded.affine = image.affine  # equal but for rounding: resampled alike, to the same shape
        return coded

    def compare(self, names: Sequence[str], labels: Sequence[MetaTensor], image: torch.Tensor) -> None:
        """Refuse annotations of ``image``, coded, that contradict each other."""
        voxels = count_values([label.numpy() for label in labels], image[0].numel())
        tables = [dict(enumerate(candidate_sets(label))) for label in labels]
        mistake = contradiction(file_of(image, "image"), names, voxels, tables, self.classes)
        if mistake is not None:
            raise DataError(mistake.message)


LoadCandidatesD = LoadCandidatesDict = LoadCandidatesd
