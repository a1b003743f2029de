"""Dictionary forms of the partial-label transforms."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from monai.config import KeysCollection
from monai.transforms import MapTransform

from .array import EncodeCandidates, ExpandCandidates, IntersectCandidates, RestrictToCandidates

__all__ = [
    "EncodeCandidatesD",
    "EncodeCandidatesDict",
    "EncodeCandidatesd",
    "ExpandCandidatesD",
    "ExpandCandidatesDict",
    "ExpandCandidatesd",
    "IntersectCandidatesD",
    "IntersectCandidatesDict",
    "IntersectCandidatesd",
    "RestrictToCandidatesD",
    "RestrictToCandidatesDict",
    "RestrictToCandidatesd",
]


class EncodeCandidatesd(MapTransform):
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
        super().__init__(keys, allow_missing_keys)
        self.encode = EncodeCandidates(num_classes, values, unlabelled, background)
        self.annotated_key = annotated_key

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        d = dict(data)
        for key in self.key_iterator(d):
            d[key] = self.encode(d[key], d.get(self.annotated_key))
        return d


class IntersectCandidatesd(MapTransform):
    """
    Dictionary-based wrapper of :py:class:`dcl_monai.transforms.IntersectCandidates`.

    Args:
        keys: keys of the label maps, changed in place.
        other_key: key of the second annotation.
        allow_missing_keys: don't raise if a key is missing.
    """

    def __init__(self, keys: KeysCollection, other_key: str, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, allow_missing_keys)
        self.intersect = IntersectCandidates()
        self.other_key = other_key

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        d = dict(data)
        for key in self.key_iterator(d):
            d[key] = self.intersect(d[key], d[self.other_key])
        return d


class ExpandCandidatesd(MapTransform):
    """
    Dictionary-based wrapper of :py:class:`dcl_monai.transforms.ExpandCandidates`.

    Args:
        keys: keys of the coded label maps.
        num_classes: number of classes m.
        allow_missing_keys: don't raise if a key is missing.
    """

    def __init__(self, keys: KeysCollection, num_classes: int, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, allow_missing_keys)
        self.expand = ExpandCandidates(num_classes)

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        d = dict(data)
        for key in self.key_iterator(d):
            d[key] = self.expand(d[key])
        return d


class RestrictToCandidatesd(MapTransform):
    """
    Dictionary-based wrapper of :py:class:`dcl_monai.transforms.RestrictToCandidates`.

    Args:
        keys: keys of the class probabilities.
        candidates_key: key of the boolean candidate sets.
        allow_missing_keys: don't raise if a key is missing.
    """

    def __init__(self, keys: KeysCollection, candidates_key: str = "label", allow_missing_keys: bool = False) -> None:
        super().__init__(keys, allow_missing_keys)
        self.restrict = RestrictToCandidates()
        self.candidates_key = candidates_key

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        d = dict(data)
        for key in self.key_iterator(d):
            d[key] = self.restrict(d[key], d[self.candidates_key])
        return d


EncodeCandidatesD = EncodeCandidatesDict = EncodeCandidatesd
IntersectCandidatesD = IntersectCandidatesDict = IntersectCandidatesd
ExpandCandidatesD = ExpandCandidatesDict = ExpandCandidatesd
RestrictToCandidatesD = RestrictToCandidatesDict = RestrictToCandidatesd
