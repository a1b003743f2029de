"""Dictionary forms of the transforms of arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from monai.config import KeysCollection
from monai.transforms import MapTransform

from .array import EncodeCandidates, ExpandCandidates, IntersectCandidates, RestrictToCandidates
from .intensity import Intensity, StandardizeIntensity


class ArrayWrapper(MapTransform):
    """An array transform for entries of a dictionary; its ``further`` arguments are others, if they are there."""

    def __init__(
        self, keys: KeysCollection, transform: Callable[..., Any], *further: str, allow_missing_keys: bool
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        self.transform = transform
        self.further = further

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        d = dict(data)
        for key in self.key_iterator(d):
            d[key] = self.transform(d[key], *(d[other] for other in self.further if other in d))
        return d


class EncodeCandidatesd(ArrayWrapper):
    """
    Dictionary-based wrapper of :py:class:`dcl_monai.transforms.EncodeCandidates`.

    Args:
        keys: keys of the label maps.
        num_classes: number of classes m of the model, background included.
        values: label value -> class index, or several of them for a union. Default: value j is class j.
        unlabelled: label value about which nothing is known.
        background: class that surrounds the image, or ``None``.
        annotated_key: key of the list of annotated class indices; an item without it is annotated in full.
        allow_missing_keys: don't raise if a key is missing.
    """

    def __init__(
        self,
        keys: KeysCollection,
        num_classes: int,
        values: Mapping[int, int | Sequence[int]] | None = None,
        unlabelled: int | None = None,
        background: int | None = 0,
        annotated_key: str = "annotated",
        allow_missing_keys: bool = False,
    ) -> None:
        encode = EncodeCandidates(num_classes, values, unlabelled, background)
        super().__init__(keys, encode, annotated_key, allow_missing_keys=allow_missing_keys)


class IntersectCandidatesd(ArrayWrapper):
    """
    Dictionary-based wrapper of :py:class:`dcl_monai.transforms.IntersectCandidates`.

    Args:
        keys: keys of the label maps, changed in place.
        other_key: key of the second annotation.
        allow_missing_keys: don't raise if a key is missing.
    """

    def __init__(self, keys: KeysCollection, other_key: str, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, IntersectCandidates(), other_key, allow_missing_keys=allow_missing_keys)


class ExpandCandidatesd(ArrayWrapper):
    """
    Dictionary-based wrapper of :py:class:`dcl_monai.transforms.ExpandCandidates`.

    Args:
        keys: keys of the coded label maps.
        num_classes: number of classes m.
        allow_missing_keys: don't raise if a key is missing.
    """

    def __init__(self, keys: KeysCollection, num_classes: int, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, ExpandCandidates(num_classes), allow_missing_keys=allow_missing_keys)


class RestrictToCandidatesd(ArrayWrapper):
    """
    Dictionary-based wrapper of :py:class:`dcl_monai.transforms.RestrictToCandidates`.

    Args:
        keys: keys of the class probabilities.
        candidates_key: key of the boolean candidate sets.
        allow_missing_keys: don't raise if a key is missing.
    """

    def __init__(self, keys: KeysCollection, candidates_key: str = "label", allow_missing_keys: bool = False) -> None:
        super().__init__(keys, RestrictToCandidates(), candidates_key, allow_missing_keys=allow_missing_keys)


class StandardizeIntensityd(ArrayWrapper):
    """
    Dictionary-based wrapper of :py:class:`dcl_monai.transforms.StandardizeIntensity`.

    Args:
        keys: keys of the images.
        intensity: see :py:class:`dcl_monai.transforms.StandardizeIntensity`.
        allow_missing_keys: don't raise if a key is missing.
    """

    def __init__(
        self,
        keys: KeysCollection,
        intensity: Intensity | Sequence[Intensity | None] | None = None,
        allow_missing_keys: bool = False,
    ) -> None:
        super().__init__(keys, StandardizeIntensity(intensity), allow_missing_keys=allow_missing_keys)


EncodeCandidatesD = EncodeCandidatesDict = EncodeCandidatesd
IntersectCandidatesD = IntersectCandidatesDict = IntersectCandidatesd
ExpandCandidatesD = ExpandCandidatesDict = ExpandCandidatesd
RestrictToCandidatesD = RestrictToCandidatesDict = RestrictToCandidatesd
StandardizeIntensityD = StandardizeIntensityDict = StandardizeIntensityd
