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
]
