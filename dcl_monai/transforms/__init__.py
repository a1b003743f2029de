"""Transforms of partial labels, each as an array class and as a dictionary class ending in ``d``."""

from .array import EncodeCandidates, ExpandCandidates, IntersectCandidates, RestrictToCandidates
from .check import CheckImage, CheckImageD, CheckImaged, CheckImageDict
from .dictionary import (
    EncodeCandidatesD,
    EncodeCandidatesd,
    EncodeCandidatesDict,
    ExpandCandidatesD,
    ExpandCandidatesd,
    ExpandCandidatesDict,
    IntersectCandidatesD,
    IntersectCandidatesd,
    IntersectCandidatesDict,
    RestrictToCandidatesD,
    RestrictToCandidatesd,
    RestrictToCandidatesDict,
    StandardizeIntensityD,
    StandardizeIntensityd,
    StandardizeIntensityDict,
)
from .images import LoadImagesD, LoadImagesd, LoadImagesDict
from .intensity import Intensity, StandardizeIntensity
from .load import LoadCandidatesD, LoadCandidatesd, LoadCandidatesDict
from .stored import StoredAnnotationD, StoredAnnotationd, StoredAnnotationDict, stored_annotation

__all__ = [
    "CheckImage",
    "CheckImageD",
    "CheckImageDict",
    "CheckImaged",
    "EncodeCandidates",
    "EncodeCandidatesD",
    "EncodeCandidatesDict",
    "EncodeCandidatesd",
    "ExpandCandidates",
    "ExpandCandidatesD",
    "ExpandCandidatesDict",
    "ExpandCandidatesd",
    "Intensity",
    "IntersectCandidates",
    "IntersectCandidatesD",
    "IntersectCandidatesDict",
    "IntersectCandidatesd",
    "LoadCandidatesD",
    "LoadCandidatesDict",
    "LoadCandidatesd",
    "LoadImagesD",
    "LoadImagesDict",
    "LoadImagesd",
    "RestrictToCandidates",
    "RestrictToCandidatesD",
    "RestrictToCandidatesDict",
    "RestrictToCandidatesd",
    "StandardizeIntensity",
    "StandardizeIntensityD",
    "StandardizeIntensityDict",
    "StandardizeIntensityd",
    "StoredAnnotationD",
    "StoredAnnotationDict",
    "StoredAnnotationd",
    "stored_annotation",
]
