"""Loading the annotations of an image, whatever kind and however many there are."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from monai.config import KeysCollection
from monai.data import MetaTensor
from monai.transforms import MapTransform

from dcl_monai.candidates import agreed, all_classes, candidate_label, coded, outlines, shown_set
from dcl_monai.datalist.agreement import Agreement
from dcl_monai.datalist.items import SPECIFICATION, Annotation, Item, annotations_of
from dcl_monai.utils import DataError

from .drawings import contradiction, read_drawings
from .files import file_of


class LoadCandidatesd(MapTransform):
    """
    Load what is known of an image as candidate sets: the label files of an item of a datalist, each encoded by its own
    values, and merged (:mod:`dcl_monai.transforms.drawings`). Without a label every class is possible in every voxel.

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

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        d = dict(data)
        annotations = annotations_of(cast(Item, d))  # but for its image, which is loaded
        label = self.load(annotations, d[self.image_key])
        for key in self.keys:
            d[key] = label
        return {key: value for key, value in d.items() if key not in SPECIFICATION}

    def load(self, annotations: Sequence[Annotation], image: torch.Tensor) -> MetaTensor:
        """Load the annotations of ``image``, which may be none, as codes with their table, (1, H, W[, D])."""
        drawings, mistakes = read_drawings(annotations, image, self.num_classes)
        for mistake in mistakes:
            raise DataError(mistake.message)
        wrong = contradiction(file_of(image, "image"), annotations, drawings.counts(), self.classes)
        if wrong is not None:
            raise DataError(wrong.message)
        agreement = Agreement(annotations, self.num_classes)
        table, places = coded(self.outside(annotations), [agreement(choices) for choices in drawings.choices])
        codes = np.array(places, np.float32)[drawings.codes]
        label = candidate_label(torch.from_numpy(codes)[None], table, like=image)
        if annotations:
            label.meta["filename_or_obj"] = annotations[0]["label"]
        return label

    def outside(self, annotations: Sequence[Annotation]) -> int:
        """What the annotations say of a voxel outside the image: nothing for scribbles, background otherwise."""
        everything = all_classes(self.num_classes)
        said = [everything]
        for annotation in annotations:
            drawn = outlines(annotation.get("annotated"), self.num_classes, annotation["label"])
            said.append(everything if annotation.get("unlabelled") else shown_set(1, drawn, self.num_classes))
        return agreed(said, "either")  # that they differ there is no contradiction: nobody drew


LoadCandidatesD = LoadCandidatesDict = LoadCandidatesd
