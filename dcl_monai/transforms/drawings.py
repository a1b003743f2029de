"""What raters drew in an image: their files, brought into one map, for the loader and for ``check``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from monai.data import MetaTensor
from monai.data.utils import affine_to_spacing
from scipy.ndimage import distance_transform_edt

from dcl_monai.candidates import from_bits
from dcl_monai.datalist.agreement import Agreement, Choice, Drawing
from dcl_monai.datalist.items import Annotation, annotation_table
from dcl_monai.utils import DataError

from .dicom import read_region
from .files import LabelMistake, file_of, geometry_mistakes, read_label, value_mistakes

SWAPPED = "Image and label swapped"
"""Kind of a mistake that explains all others."""
MOST_CODES = 2**16
"""Label values that span no more are looked up in a table, which is faster than sorting them."""


class Drawings(NamedTuple):
    """What was drawn at every voxel of an image."""

    codes: np.ndarray
    """Place of a voxel's drawing in ``choices``, (H, W[, D])."""
    choices: list[tuple[Choice, ...]]
    """What every rater may have drawn."""

    def counts(self) -> dict[tuple[Choice, ...], int]:
        """Number of voxels of everything that was drawn."""
        numbers = np.bincount(self.codes.ravel(), minlength=len(self.choices)).tolist()
        return {choice: number for choice, number in zip(self.choices, numbers, strict=True) if number}


def read_drawings(
    annotations: Sequence[Annotation], image: torch.Tensor, num_classes: int
) -> tuple[Drawings, list[LabelMistake]]:
    """
    Read the label files of an image (C, H, W[, D]): what is drawn, and everything that is wrong with the files.

    If anything is, the former means nothing.
    """
    agreement = Agreement(annotations, num_classes)
    spacing = _spacing(image)
    mistakes: list[LabelMistake] = []
    result = Drawings(np.zeros(image.shape[1:], np.uint8), [()])
    for rater, members in enumerate(agreement.raters):
        codes = np.zeros(image.shape[1:], np.uint8)
        drawings: list[Drawing] = [()]
        for annotation in members:
            found, values, wrong = _read(annotation, image, num_classes)
            mistakes += wrong
            if not wrong:
                codes, pairs = _joint(codes, len(drawings), found, len(values))
                drawings = [(*drawings[one], values[other]) for one, other in pairs]
        if mistakes:
            continue
        choices: list[Choice] = [(drawing,) for drawing in drawings]
        slices, radius = members[0].get("annotated_slices"), members[0].get("uncertain_border", 0.0)
        if slices is not None:
            drawn = np.array([agreement.is_drawn(rater, drawing) for drawing in drawings])[codes]
            axis = slice_axis(codes.shape, spacing)
            looked_at, wrong = _slices(slices, drawn, axis, file_of(image, members[0]["label"]))
            mistakes += wrong
            codes, pairs = _joint(codes, len(choices), looked_at.astype(np.uint8), 2)
            choices = [choices[code] if is_known else () for code, is_known in pairs]
        if radius > 0:
            spreads = [bool(choice) and not agreement.is_blank(rater, choice[0]) for choice in choices]
            codes, mixed = _blur(codes, spreads, radius, spacing)
            choices = [tuple(drawing for code in sorted(members) for drawing in choices[code]) for members in mixed]
        codes, pairs = _joint(result.codes, len(result.choices), codes, len(choices))
        result = Drawings(codes, [(*result.choices[one], choices[other]) for one, other in pairs])
    return result, mistakes


def slice_axis(shape: Sequence[int], spacing: Sequence[float]) -> int:
    """The axis along which the slices of a volume lie: they are thicker than their pixels are wide; else the last."""
    single = [axis for axis, size in enumerate(shape) if size == 1]
    if len(shape) < 3 or single:
        return single[-1] if single else len(shape) - 1
    return max(range(len(shape)), key=lambda axis: (round(float(spacing[axis]), 2), axis))


def contradiction(
    image: str,
    annotations: Sequence[Annotation],
    counts: Mapping[tuple[Choice, ...], int],
    classes: Sequence[str],
) -> LabelMistake | None:
    """Say where masks overlap, or raters disagree, and nobody allowed them to, by :meth:`Drawings.counts`."""
    agreement = Agreement(annotations, len(classes))
    overlaps: Counter[tuple[str, str]] = Counter()
    conflicts: Counter[tuple[int, ...]] = Counter()
    for choices, count in counts.items():
        sets = [agreement.of_rater(rater, choice) for rater, choice in enumerate(choices)]
        if not all(sets):
            rater = sets.index(0)
            overlaps[_overlapping(agreement, rater, choices[rater])] += count
        elif not agreement(choices):
            conflicts[tuple(sets)] += count
    if overlaps:
        one, other = max(overlaps, key=lambda pair: (overlaps[pair], pair))
        return LabelMistake(
            "Masks overlap",
            f"{other}: overlaps with {one} in {overlaps[one, other]} voxel(s). Correct one of the masks, or write "
            "`overlap: first` (the first of the list counts) or `overlap: either` in the data set.",
        )
    if not conflicts:
        return None
    worst = max(conflicts, key=lambda told: (conflicts[told], told))
    said = "; ".join(
        f"{' with '.join(a['label'] for a in rater)} says {' or '.join(classes[j] for j in from_bits(bits))}"
        for rater, bits in zip(agreement.raters, worst, strict=True)
    )
    return LabelMistake(
        "Annotations contradict each other",
        f"{image}: its annotations contradict each other in {sum(conflicts.values())} voxel(s): {said}. Correct one of "
        "them or remove it from the list; `disagreement: either` in the data set keeps both answers.",
    )


def _overlapping(agreement: Agreement, rater: int, choice: Choice) -> tuple[str, str]:
    """Two masks of a rater that cannot both be right."""
    names = [", ".join(str(a[key]) for key in ("label", "region") if key in a) for a in agreement.raters[rater]]
    for drawing in choice:
        for (one, first), (other, second) in combinations(enumerate(agreement.said(rater, drawing)), 2):
            if not first & second:
                return names[one], names[other]
    return names[0], names[-1]  # three of them leave nothing, though any two do


def _read(
    annotation: Annotation, image: torch.Tensor, num_classes: int
) -> tuple[np.ndarray, list[int], list[LabelMistake]]:
    """Read one file: for every voxel the place of its value, and the values."""
    name, nothing = annotation["label"], np.zeros(0, np.uint8)
    try:
        region = annotation.get("region")
        label = read_label(name) if region is None else read_region(name, region, image, file_of(image, ""))
    except DataError as error:
        return nothing, [], [LabelMistake("File cannot be read", str(error))]
    mistakes = list(geometry_mistakes(name, label, image))
    if label.ndim > 4 or len(label) > 1:  # channels are no label values
        return nothing, [], mistakes
    codes, values = _places(label.numpy()[0])
    counts = np.bincount(codes.ravel(), minlength=len(values))
    known = annotation_table(annotation, num_classes)
    wrong = list(value_mistakes(name, values, counts, known, is_mask="rater" in annotation))
    if wrong and _looks_like_label(image, known):
        both = f"{file_of(image, 'the image')}: looks like a label, and its label {name} like an image."
        return nothing, [], [LabelMistake(SWAPPED, f"{both} Swap `image` and `label`.")]
    mistakes += wrong
    return codes, [] if mistakes else [int(value) for value in values], mistakes


def _looks_like_label(image: torch.Tensor, known: Mapping[int, int]) -> bool:
    """Whether an image holds nothing but several values that have a meaning in its label."""
    found = torch.unique(image.as_tensor() if isinstance(image, MetaTensor) else image).tolist()
    return len(found) > 1 and all(value in known for value in found)


def _places(label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every voxel the place of its value among all values, and the values in order."""
    low, high = label.min(), label.max()
    if np.isfinite(low) and np.isfinite(high) and high - low < MOST_CODES:
        shifted = (label - low).astype(np.int32)
        if np.array_equal(shifted, label - low) and low == np.rint(low):
            found = np.flatnonzero(np.bincount(shifted.ravel()))
            return _renumber(shifted, found), found + low
    values, codes = np.unique(label, return_inverse=True)
    return codes.reshape(label.shape), values


def _renumber(codes: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Replace the numbers found by their places."""
    places = np.zeros(int(found.max()) + 1, np.min_scalar_type(len(found)))
    places[found] = np.arange(len(found))
    return places[codes]


def _joint(
    one: np.ndarray, count: int, other: np.ndarray, other_count: int
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Bring two maps of codes into one: the new codes, and the pair of old ones that each stands for."""
    product = one.astype(np.int64) * other_count + other
    found = np.flatnonzero(np.bincount(product.ravel(), minlength=count * other_count))
    return _renumber(product, found), [divmod(int(place), other_count) for place in found]


def _slices(
    wanted: str | Sequence[int], drawn: np.ndarray, axis: int, image: str
) -> tuple[np.ndarray, list[LabelMistake]]:
    """Which voxels lie in the slices that a rater looked at."""
    depth = drawn.shape[axis] if drawn.ndim > 2 else 1
    beyond = [] if isinstance(wanted, str) else [number for number in wanted if number > depth]
    if beyond:
        message = (
            f"{image}: has {depth} slice(s), but `annotated_slices` names slice {beyond[0]}. Count from 1, as the "
            "pictures of `check` do."
        )
        return drawn, [LabelMistake("Slice that does not exist", message)]
    others = tuple(k for k in range(drawn.ndim) if drawn.ndim < 3 or k != axis)
    if isinstance(wanted, str):
        return np.broadcast_to(drawn.any(others, keepdims=True), drawn.shape), []
    chosen = np.isin(np.arange(1, depth + 1), wanted)
    return np.broadcast_to(np.expand_dims(chosen, others) if drawn.ndim > 2 else chosen[0], drawn.shape), []


def _blur(
    codes: np.ndarray, spreads: Sequence[bool], radius: float, spacing: Sequence[float]
) -> tuple[np.ndarray, list[frozenset[int]]]:
    """
    Find for every voxel all codes within a radius in mm, from centre to centre: new codes, and the old ones of each.

    ``spreads`` says of every code whether it reaches others, and they it; one that says nothing does not.
    """
    mixed, members = codes, [frozenset([code]) for code in range(len(spreads))]
    takes = np.asarray(spreads)[codes]
    for code in np.flatnonzero(spreads):
        itself = codes == code
        if itself.all() or not itself.any():
            continue
        near = takes & ~itself & (distance_transform_edt(~itself, sampling=spacing) <= radius + 1e-6)
        mixed, pairs = _joint(mixed, len(members), near.astype(np.uint8), 2)
        members = [members[old] | {int(code)} if is_near else members[old] for old, is_near in pairs]
    return mixed, members


def _spacing(image: torch.Tensor) -> list[float]:
    """Size of a voxel in mm, as many numbers as the image has axes."""
    axes = image.ndim - 1
    if not isinstance(image, MetaTensor):
        return [1.0] * axes
    sizes = affine_to_spacing(np.asarray(image.affine, dtype=float), min(3, axes), float, suppress_zeros=False)
    return [float(size) or 1.0 for size in sizes]
