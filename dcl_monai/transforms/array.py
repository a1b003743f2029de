"""Partial-label transforms on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from monai.config import NdarrayOrTensor
from monai.data import MetaTensor
from monai.transforms import Transform
from monai.utils import convert_to_tensor

from dcl_monai.candidates import (
    all_classes,
    candidate_label,
    candidate_sets,
    coded,
    expand,
    from_bits,
    label_sets,
    outlines,
    shown_set,
)
from dcl_monai.utils import DataError

from .files import file_of, value_mistakes


class EncodeCandidates(Transform):
    """
    Turn a label map into codes of candidate sets (see :mod:`dcl_monai.candidates`).

    Every kind of partial annotation is a choice of arguments:

    - some classes drawn: pass them as ``annotated`` when calling; other values of the label map are hidden;
    - scribbles: ``unlabelled`` is the value off every stroke;
    - unions ("whole heart"): a label value stands for several classes, e.g. ``values={0: 0, 1: [1, 2, 3]}``.

    Args:
        num_classes: number of classes m of the model, background included.
        values: label value -> class index, or several of them for a union. Default: value j is class j.
        unlabelled: label value(s) about which nothing is known: "scribble left blank", "ignore".
        background: class that surrounds the image, or ``None``. It decides the set of voxels that padding adds.

    Raises:
        ValueError: when a class index is outside ``range(num_classes)``.

    Examples:
        >>> encode = EncodeCandidates(num_classes=4)
        >>> label = encode(torch.tensor([[0, 1, 2, 3]]), annotated=[2])
        >>> [from_bits(bits) for bits in candidate_sets(label)], label.tolist()
        ([(0, 1, 3), (2,)], [[0.0, 0.0, 1.0, 0.0]])
    """

    def __init__(
        self,
        num_classes: int,
        values: Mapping[int, int | Sequence[int]] | None = None,
        unlabelled: int | Sequence[int] | None = None,
        background: int | None = 0,
    ) -> None:
        self.num_classes = num_classes
        self.sets = label_sets(num_classes, values, unlabelled)
        everything = all_classes(num_classes)
        # What the annotation says about a voxel outside the image: nothing for scribbles, background otherwise.
        blank = isinstance(unlabelled, int) or bool(unlabelled)
        self.outside = everything if blank or background is None else 1 << background

    def __call__(self, label: NdarrayOrTensor, annotated: Sequence[int | Sequence[int]] | None = None) -> MetaTensor:
        """
        Args:
            label: label map of integer values, any shape.
            annotated: what is annotated in this image: class indices, and unions as lists of them; default: all that
                the values name.

        Returns:
            codes (float32, as MONAI's label maps) with the table of sets in the metadata.

        Raises:
            DataError: when the label map holds a value without a meaning, or an annotated class does not exist.
        """
        tensor = convert_to_tensor(label, track_meta=True)
        name = _name(tensor)
        shown = outlines(annotated, self.num_classes, name)
        raw = tensor.detach().cpu().numpy()
        found, inverse, counts = np.unique(raw, return_inverse=True, return_counts=True)
        for mistake in value_mistakes(name, found, counts, self.sets):
            raise DataError(mistake.message)
        outside, *sets = (
            shown_set(bits, shown, self.num_classes) for bits in (self.outside, *(self.sets[int(v)] for v in found))
        )
        table, places = coded(outside, sets)
        codes = torch.from_numpy(np.array(places, np.float32)[inverse].reshape(raw.shape)).to(tensor.device)
        return candidate_label(codes, table, like=tensor)


class IntersectCandidates(Transform):
    """
    Merge two annotations of one image (two raters, two data sets): each voxel keeps the classes both allow.

    Examples:
        >>> a = EncodeCandidates(3)(torch.tensor([[0, 1, 2]]), annotated=[1])
        >>> b = EncodeCandidates(3)(torch.tensor([[0, 1, 2]]), annotated=[2])
        >>> merged = IntersectCandidates()(a, b)
        >>> [from_bits(bits) for bits in candidate_sets(merged)]
        [(0,), (1,), (2,)]
    """

    def __call__(self, label: torch.Tensor, other: torch.Tensor) -> MetaTensor:  # type: ignore[override]
        """
        Args:
            label: codes with their table.
            other: codes of the second annotation, same shape.

        Raises:
            DataError: when the shapes differ, or some voxel has no class that both annotations allow.
        """
        if label.shape != other.shape:
            raise DataError(
                f"{_name(label)} and {_name(other)} annotate one image but have shapes "
                f"{tuple(label.shape)} and {tuple(other.shape)}: resample one onto the other."
            )
        sets, other_sets = candidate_sets(label), candidate_sets(other)
        joint = convert_to_tensor(label).long() * len(other_sets) + convert_to_tensor(other).long()
        found, inverse = torch.unique(joint, return_inverse=True)
        pairs = [(sets[pair // len(other_sets)], other_sets[pair % len(other_sets)]) for pair in found.tolist()]
        conflicts = [pair for pair in pairs if not pair[0] & pair[1]]
        if conflicts:
            count = sum(int((inverse == place).sum()) for place, pair in enumerate(pairs) if pair in conflicts)
            raise DataError(
                f"{_name(label)} and {_name(other)} disagree in {count} voxel(s): one allows classes "
                f"{from_bits(conflicts[0][0])}, the other {from_bits(conflicts[0][1])}. Correct one of them or drop it."
            )
        table, places = coded(sets[0] & other_sets[0], [first & second for first, second in pairs])
        codes = torch.tensor(places, dtype=torch.float32, device=joint.device)
        if not table[0]:  # the two differ only outside the image, where nobody drew: nothing is known there
            table[0] = sets[0] | other_sets[0]
        return candidate_label(codes[inverse], table, like=label)


class ExpandCandidates(Transform):
    """
    Expand codes into the membership of every class, the form in which losses and metrics take partial labels.

    Args:
        num_classes: number of classes m.
    """

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes

    def __call__(self, label: torch.Tensor) -> torch.Tensor:
        """
        Args:
            label: codes with their table, shape (1, H, W[, D]).

        Returns:
            boolean tensor of shape (m, H, W[, D]), true where the class is in the voxel's candidate set.
        """
        sets = candidate_sets(label)
        return expand(convert_to_tensor(label)[0], sets, self.num_classes)


class RestrictToCandidates(Transform):
    """
    Leave only the classes that an annotation allows: a prediction that contradicts nothing that is known.

    Its argmax is the pseudo-label of a voxel: the annotated class where that is known, else the likeliest candidate.
    """

    def __call__(self, prob: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """
        Args:
            prob: class probabilities, shape (m, H, W[, D]).
            candidates: boolean membership of the same shape, see :class:`ExpandCandidates`.

        Returns:
            the probabilities, with -1 for classes that are no candidates.
        """
        return prob.masked_fill(~candidates.to(prob.device), -1.0)


def _name(label: torch.Tensor) -> str:
    return file_of(label, "label map")
