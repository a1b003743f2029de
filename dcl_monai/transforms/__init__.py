"""Transforms of partial labels, each as an array class and as a dictionary class ending in ``d``."""

from .array import EncodeCandidates, ExpandCandidates, IntersectCandidates, RestrictToCandidates
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
)
from .load import LoadCandidatesD, LoadCandidatesd, LoadCandidatesDict, annotations_of
from .stored import StoredAnnotationD, StoredAnnotationd, StoredAnnotationDict, stored_annotation

__all__ = [
    "EncodeCandidates",
    "EncodeCandidatesD",
    "EncodeCandidatesDict",
    "EncodeCandidatesd",
    "ExpandCandidates",
    "ExpandCandidatesD",
    "ExpandCandidatesDict",
    "ExpandCandidatesd",
    "IntersectCandidates",
    "IntersectCandidatesD",
    "IntersectCandidatesDict",
    "IntersectCandidatesd",
    "LoadCandidatesD",
    "LoadCandidatesDict",
    "LoadCandidatesd",
    "RestrictToCandidates",
    "RestrictToCandidatesD",
    "RestrictToCandidatesDict",
    "RestrictToCandidatesd",
    "StoredAnnotationD",
    "StoredAnnotationDict",
    "StoredAnnotationd",
    "annotations_of",
    "stored_annotation",
]
