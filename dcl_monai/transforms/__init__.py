"""Partial-label transforms, each as an array class and as a dictionary class ending in ``d``."""

from .array import EncodeCandidates, ExpandCandidates, IntersectCandidates
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
)
from .load import LoadCandidatesD, LoadCandidatesd, LoadCandidatesDict, annotations_of

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
    "annotations_of",
]
