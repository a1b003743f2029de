"""Candidate sets: the one representation of every kind of partial label.

For each voxel we keep the set S of classes it may still belong to. A label map is a single integer channel of small
*codes*, and its metadata holds the table ``code -> set`` of that image, each set as the bits of a Python integer (class
j is bit j), so any number of classes works. MONAI's resamplers, flips, crops, pads and caches treat the channel like
any other label map: codes are far below 2**24, the largest integer that float32 (in which MONAI resamples) holds
exactly.

Code 0 is always the set of a voxel *outside the image*, so that the zero which MONAI fills in by default means what the
annotation says about such a voxel, and not "background" by accident.

===================================================  ==================================================
annotation                                           candidate set of a voxel
===================================================  ==================================================
full label, class j                                  {j}
classes c_q annotated, voxel inside class j of c_q   {j}
classes c_q annotated, voxel outside all of them     all classes but c_q
scribble, on the stroke of class j                   {j}
scribble, off every stroke; ignored region           all classes
union annotated ("whole heart"), inside / outside    the union's classes / the others
two annotations of one image                         intersection of both sets (empty: a conflict)
===================================================  ==================================================

The paper's label vector is recovered per class: y_j = 1 where S = {j}, y_j = 0 where j is not in S, and unknown (the
paper's p) elsewhere: see :func:`known_positive` and :func:`known`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from monai.data import MetaTensor

__all__ = [
    "CANDIDATE_SETS",
    "all_classes",
    "annotated_classes",
    "candidate_label",
    "candidate_sets",
    "expand",
    "from_bits",
    "indistinct_classes",
    "known",
    "known_positive",
    "to_bits",
]

CANDIDATE_SETS = "candidate_sets"
"""Key of the table ``code -> set`` in the metadata of a coded label map."""


def to_bits(classes: Iterable[int]) -> int:
    """Return the set of class indices as the bits of one integer: ``to_bits([0, 2]) == 0b101``."""
    bits = 0
    for index in classes:
        bits |= 1 << int(index)  # a NumPy integer would overflow at 64 classes
    return bits


def from_bits(bits: int) -> tuple[int, ...]:
    """Return the sorted class indices of a set of bits: ``from_bits(0b101) == (0, 2)``."""
    return tuple(index for index in range(bits.bit_length()) if bits >> index & 1)


def all_classes(num_classes: int) -> int:
    """Return the set of all classes, of which a voxel nobody looked at may be any."""
    return (1 << num_classes) - 1


def candidate_label(codes: torch.Tensor, sets: Sequence[int], like: torch.Tensor | None = None) -> MetaTensor:
    """
    Bind codes and their table into one label map.

    Args:
        codes: integer codes, any shape.
        sets: the set of every code, as bits; code 0 is the set of a voxel outside the image.
        like: label map whose metadata (affine, file name) is taken over.

    Returns:
        the codes as a MetaTensor that carries the table.
    """
    label = MetaTensor(torch.as_tensor(codes))
    if isinstance(like, MetaTensor):
        label.copy_meta_from(like)
    label.meta[CANDIDATE_SETS] = tuple(int(bits) for bits in sets)
    return label


def candidate_sets(label: torch.Tensor) -> tuple[int, ...]:
    """
    Return the table ``code -> set`` of a coded label map.

    Raises:
        ValueError: when the label map carries no table, i.e. was never encoded or lost its metadata.
    """
    if not isinstance(label, MetaTensor) or CANDIDATE_SETS not in label.meta:
        raise ValueError("This label map has no candidate sets: encode it first with `EncodeCandidates`.")
    return tuple(label.meta[CANDIDATE_SETS])


def expand(codes: torch.Tensor, sets: Sequence[int], num_classes: int) -> torch.Tensor:
    """
    Expand codes into the membership of every class.

    Args:
        codes: codes of one image, shape (\\*spatial); floating-point codes (as resamplers give them) are rounded.
        sets: the set of every code, as bits.
        num_classes: number of classes m.

    Returns:
        boolean tensor of shape (m, \\*spatial), true where the class is in the voxel's candidate set.
    """
    table = torch.tensor([[bool(bits >> j & 1) for bits in sets] for j in range(num_classes)], device=codes.device)
    index = codes.round().long() if codes.is_floating_point() else codes.long()
    return table[:, index]


def known_positive(candidates: torch.Tensor, dim: int = 1) -> torch.Tensor:
    """
    Entries with y = 1: the class is the only candidate of its voxel.

    Args:
        candidates: boolean membership, with the classes along ``dim``: BNHW[D] for the default.
        dim: the class dimension.
    """
    return candidates & (candidates.sum(dim, keepdim=True) == 1)


def known(candidates: torch.Tensor, dim: int = 1) -> torch.Tensor:
    """
    Entries with y = 1 or y = 0: whether the voxel belongs to the class is known.

    Args:
        candidates: boolean membership, with the classes along ``dim``: BNHW[D] for the default.
        dim: the class dimension.
    """
    return ~candidates | (candidates.sum(dim, keepdim=True) == 1)


def annotated_classes(sets: Iterable[int], num_classes: int) -> tuple[int, ...]:
    """
    Classes whose membership every one of these sets decides, i.e. the classes that an annotator drew everywhere.

    A class can be annotated and absent: then no set holds it. A class that is not annotated stays a candidate somewhere
    beside others. The two are never confused here.
    """
    sets = tuple(sets)
    return tuple(j for j in range(num_classes) if all(bits == 1 << j or not bits >> j & 1 for bits in sets))


def indistinct_classes(sets: Iterable[int], num_classes: int) -> list[tuple[int, int]]:
    """
    Pairs of classes that none of these sets tells apart, since each holds both of them or neither.

    A class need not be drawn on its own to be learned: inside a "whole heart", outside every other part of it, is the
    part that nobody drew.
    """
    sets = tuple(sets)
    return [
        (j, k)
        for j in range(num_classes)
        for k in range(j + 1, num_classes)
        if all(bits >> j & 1 == bits >> k & 1 for bits in sets)
    ]
