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
two annotations of one image                         intersection of both sets (empty: see :func:`agreed`)
one mask per structure, in mask j / outside it       {j} / all classes but j, of all masks the intersection
a slice that nobody annotated                        all classes
within an uncertain border                           the classes on its sides
===================================================  ==================================================

The paper's label vector is recovered per class: y_j = 1 where S = {j}, y_j = 0 where j is not in S, and unknown (the
paper's p) elsewhere: see :func:`known_positive` and :func:`known`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_, or_

import torch
from monai.data import MetaTensor

from dcl_monai.utils import DataError

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


def label_sets(
    num_classes: int,
    values: Mapping[int, int | Sequence[int]] | None = None,
    unlabelled: int | Sequence[int] | None = None,
) -> dict[int, int]:
    """
    Candidate set, as bits, that every value of a label map stands for.

    Args:
        num_classes: number of classes m.
        values: label value -> class index, or several of them for a union. Default: value j is class j.
        unlabelled: label value(s) about which nothing is known.

    Raises:
        ValueError: when a class index is outside ``range(num_classes)``.
    """
    sets: dict[int, int] = {}
    for value, classes in ({j: j for j in range(num_classes)} if values is None else values).items():
        members = [classes] if isinstance(classes, int) else list(classes)
        if not members or not all(0 <= index < num_classes for index in members):
            raise ValueError(f"label value {value} stands for classes {members}, outside 0..{num_classes - 1}.")
        sets[int(value)] = to_bits(members)
    blank = [unlabelled] if isinstance(unlabelled, int) else unlabelled or ()
    return sets | dict.fromkeys(blank, all_classes(num_classes))


def outlines(
    annotated: Sequence[int | Sequence[int]] | None, num_classes: int, name: str = "annotation"
) -> list[int] | None:
    """
    What is annotated in an image, as sets of bits.

    Args:
        annotated: class indices, and unions as lists of them; ``None``: all that the label values name.
        num_classes: number of classes m.
        name: file of the annotation, for messages.

    Raises:
        DataError: when an annotated class does not exist.
    """
    if annotated is None:
        return None
    sets = [list(entry) if isinstance(entry, Sequence) else [entry] for entry in annotated]
    if not all(0 <= index < num_classes for members in sets for index in members):
        raise DataError(f"{name}: annotated classes {list(annotated)} are outside 0..{num_classes - 1}.")
    return [to_bits(members) for members in sets]


def shown_set(bits: int, annotated: Iterable[int] | None, num_classes: int) -> int:
    """
    Candidate set of a voxel drawn as ``bits`` when only the :func:`outlines` of ``annotated`` are shown.

    Each outline says on which side of it the voxel lies; one that ``bits`` straddles says nothing.
    """
    everything = all_classes(num_classes)
    if annotated is None or bits == everything:
        return bits
    result = everything
    for shown in annotated:
        if not bits & ~shown:
            result &= shown
        elif not bits & shown:
            result &= ~shown
    return result


def agreed(sets: Sequence[int], otherwise: str = "error") -> int:
    """
    Candidate set of a voxel about which several annotations say something.

    Args:
        sets: what each of them says, as bits.
        otherwise: what becomes of a voxel that no class fits. ``"error"``: the empty set; ``"first"``: an annotation
            that contradicts those before it says nothing; ``"either"``: all answers stay. An answer is what annotations
            say that fit together, as many as possible: {RV}, {LV} and {background, LV} become {RV, LV}.

    Returns:
        the classes that all allow, as bits, if there are any.
    """
    common = reduce(and_, sets)
    if common or otherwise == "error":
        return common
    if otherwise == "first":
        for bits in sets:
            common = (common & bits or common) if common else bits
        return common
    classes = from_bits(reduce(or_, sets))
    allowed = {j: to_bits(place for place, bits in enumerate(sets) if bits >> j & 1) for j in classes}
    kept = [j for j in classes if not any(other != allowed[j] == other & allowed[j] for other in allowed.values())]
    return to_bits(kept)


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


def coded(outside: int, sets: Sequence[int]) -> tuple[list[int], list[int]]:
    """The table of all these sets, that of a voxel outside the image first, and the place of each of ``sets`` in it."""
    table = list(dict.fromkeys([outside, *sets]))
    return table, [table.index(bits) for bits in sets]


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
    codes = whole(codes, sets)
    return torch.stack([where(codes, [bool(bits >> j & 1) for bits in sets]) for j in range(num_classes)])


def class_rows(codes: torch.Tensor, sets: Sequence[int], index: int) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Look up one class in coded candidate sets, without expanding all of them.

    Args:
        codes: codes of one image, shape (\\*spatial), see :func:`expand`.
        sets: the set of every code, as bits.
        index: the class j.

    Returns:
        boolean (\\*spatial) each: where the voxel is known to be j, and where it is known whether it is j. They are
        ``known_positive(...)[j]`` and ``known(...)[j]`` of the expanded sets.
    """
    codes = whole(codes, sets)
    positive = [bits == 1 << index for bits in sets]
    decided = [bits == 1 << index or not bits >> index & 1 for bits in sets]
    return where(codes, positive), where(codes, decided)


def whole(codes: torch.Tensor, sets: Sequence[int]) -> torch.Tensor:
    """Round codes to whole numbers, and raise an IndexError for one that is not in the table."""
    codes = codes.round() if codes.is_floating_point() else codes
    if codes.numel() and not codes.is_cuda:
        low, high = (int(extreme) for extreme in codes.aminmax())
        if low < 0 or high >= len(sets):
            raise IndexError(f"codes {low} to {high}, but the table has {len(sets)} candidate sets.")
    return codes


def where(codes: torch.Tensor, chosen: Sequence[bool]) -> torch.Tensor:
    """
    Where the codes are among the chosen ones.

    Few codes are compared one by one, which is several times faster than a look-up.

    Args:
        codes: whole numbers, any shape.
        chosen: for every code whether it is chosen.
    """
    rare = sum(chosen) * 2 <= len(chosen)
    listed = [code for code, is_chosen in enumerate(chosen) if is_chosen == rare]
    if len(listed) > 8:
        return torch.tensor(chosen, device=codes.device)[codes.long()]
    result = torch.full(codes.shape, not rare, device=codes.device)
    for code in listed:
        if rare:
            result |= codes == code
        else:
            result &= codes != code
    return result


def assert_candidates(candidates: torch.Tensor) -> None:
    """
    Check that every voxel has a candidate: losses of a voxel that can be nothing are infinite or not a number.

    On a GPU the check does not wait for the device; a failure shows at the next synchronisation. Tensors without
    content (``meta``, by which the planner counts memory) have nothing to check.

    Args:
        candidates: boolean membership, BNHW[D].

    Raises:
        ValueError: when a voxel has none.
    """
    number = number_of_candidates(candidates)
    if number.is_cuda:
        torch._assert_async(number.all(), "a voxel has an empty candidate set")
    elif not number.is_meta and number.numel() and not number.amin():
        some = number > 0
        items = (~some).flatten(1).any(1).nonzero().flatten().tolist()
        raise ValueError(
            f"{int((~some).sum())} voxel(s) have an empty candidate set, in item(s) {items} of the batch. Two "
            "annotations contradict each other there: combine them with `IntersectCandidates`, which names the file."
        )


def as_numbers(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A boolean mask as 0 and 1, soft masks as they are; a CPU converts bytes several times faster than booleans."""
    return (mask.view(torch.uint8) if mask.dtype == torch.bool else mask).to(dtype)


def number_of_candidates(candidates: torch.Tensor, dim: int = 1) -> torch.Tensor:
    """
    Number of candidates of every voxel. Bytes are added, which a CPU does thirty times faster than with booleans.

    Args:
        candidates: boolean membership, with the classes along ``dim``: BNHW[D] for the default.
        dim: the class dimension, which stays with size 1.
    """
    dtype = torch.uint8 if candidates.shape[dim] < 256 else torch.int32
    return candidates.view(torch.uint8).sum(dim, keepdim=True, dtype=dtype)


def known_positive(candidates: torch.Tensor, dim: int = 1) -> torch.Tensor:
    """
    Entries with y = 1: the class is the only candidate of its voxel.

    Args:
        candidates: boolean membership, with the classes along ``dim``: BNHW[D] for the default.
        dim: the class dimension.
    """
    return candidates & (number_of_candidates(candidates, dim) == 1)


def known(candidates: torch.Tensor, dim: int = 1) -> torch.Tensor:
    """
    Entries with y = 1 or y = 0: whether the voxel belongs to the class is known.

    Args:
        candidates: boolean membership, with the classes along ``dim``: BNHW[D] for the default.
        dim: the class dimension.
    """
    return ~candidates | (number_of_candidates(candidates, dim) == 1)


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
