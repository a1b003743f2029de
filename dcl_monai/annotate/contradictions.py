"""Where a drawn structure and a model that did not see the image disagree, and in which way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import ndimage

KINDS = {
    "name": "looks like {other}: are the names swapped?",
    "forgotten": "nothing is drawn in slices in which the model sees it: forgotten there?",
    "moved": "fits better when moved: is the mask out of place?",
    "stray": "drawn far from where the model sees it: a stray part?",
    "size": "{larger} than the model draws it: another protocol?",
}
"""Kinds of mistakes, and what is said of them."""
SIGNS = [*KINDS, "rim"]
"""What is measured; ``rim`` is a second sign of ``size``."""
FLOORS = {"name": 0.1, "forgotten": 0.15, "moved": 0.004, "stray": 0.02, "size": 0.03, "rim": 0.03}
"""Spread of a sign below which no difference is taken seriously: labels and models are not more exact."""
KNOWN = 0.5
"""A structure is judged where it is drawn or excluded in at least this part of the image, so not from scribbles."""
GROUP = 5
SHIFTS, NEAR = 3, 3
"""Voxels: how far a mask is tried elsewhere; how far from a prediction a mask is stray, and an edge not compared."""


@dataclass(frozen=True)
class Signs:
    """
    How a drawn structure differs from what the model draws. Each sign is larger if it differs more.

    Args:
        values: the :data:`SIGNS`. ``name``: by how much another class is more probable in the mask, mean probability.
            ``forgotten``: predicted in slices without any drawn voxel, in units of the area of a drawn slice.
            ``moved``: soft Dice that is gained by moving the mask. ``stray``: drawn in pieces that are far from the
            prediction, in units of the area of a drawn slice. ``size``: log of drawn by predicted volume, with its
            sign, in slices that have both. ``rim``: part of the edge that is drawn too far out, see :func:`rim`.
        other: the class that is most probable in the mask beside it; ``None`` without a mask.
        instead: the class that is most probable where the structure is drawn and the model does not see it.
        shift: voxels (i, j, k) by which the mask should be moved.
        point: voxel (i, j, k) where most of it can be seen.
    """

    values: Mapping[str, float]
    other: int | None
    instead: int | None
    shift: tuple[int, int, int]
    point: tuple[int, int, int]


@dataclass(frozen=True)
class Finding:
    """
    A drawn structure that the models contradict.

    Args:
        case: index of the image.
        structure: index of the class.
        kind: a key of :data:`KINDS`.
        score: by how many spreads of this sign the image differs from the others of its kind.
        signs: all signs.
    """

    case: int
    structure: int
    kind: str
    score: float
    signs: Signs


def find_signs(probabilities: np.ndarray, candidates: np.ndarray, structure: int, axis: int = 2) -> Signs | None:
    """
    Compare a drawn structure with a prediction.

    Args:
        probabilities: class probabilities of a model that did not see the image, (m, H, W, D).
        candidates: candidate sets, boolean (m, H, W, D).
        structure: index of the class.
        axis: axis that counts slices, of the thickest voxels.

    Returns:
        the signs; ``None`` if the structure is not annotated, or the model sees nothing and nothing is drawn.
    """
    drawn = candidates[structure] & (candidates.sum(0) == 1)
    known = drawn | ~candidates[structure]
    if known.mean() < KNOWN or not (drawn.any() or known.all()):  # scribbles; within a union
        return None
    own = probabilities[structure] * known
    seen = (probabilities.argmax(0) == structure) & known
    if not (drawn.any() or seen.any()):
        return None
    box = bounding_box(drawn | seen, SHIFTS + NEAR)
    drawn, own, seen = drawn[box], own[box], seen[box]
    whole: tuple[slice, ...] = (slice(None), *box)
    probabilities = probabilities[whole]
    across = tuple(other for other in range(3) if other != axis)
    drawn_areas, seen_areas = drawn.sum(across), seen.sum(across)
    both = (drawn_areas > 0) & (seen_areas > 0)
    values = dict.fromkeys(SIGNS, 0.0)
    other, instead, shift = None, None, (0, 0, 0)
    undrawn = seen_areas * (drawn_areas == 0)
    unit = drawn_areas[drawn_areas > 0].mean() if drawn.any() else seen_areas[seen_areas > 0].mean()
    values["forgotten"] = float(undrawn.sum() / unit)
    where = seen & ~drawn
    if drawn.any():
        inside = probabilities[:, drawn].mean(1)
        inside[[0, structure]] = inside[structure], -1.0
        best = int(inside[1:].argmax()) + 1
        other = best if inside[best] > 0 else None
        values["name"] = float(inside[best] - inside[0]) if other else 0.0
        values["moved"], shift = best_shift(drawn, own, axis)
        values["stray"] = stray_voxels(drawn, seen) / float(unit)
        beyond = drawn & ~seen
        if beyond.any():
            instead = int(probabilities[:, beyond].mean(1).argmax())
        where = where | beyond
    if both.any():
        values["size"] = float(np.log(drawn_areas[both].sum() / seen_areas[both].sum()))
        values["rim"] = rim(drawn.compress(both, axis), own.compress(both, axis), axis)
    if not where.any():
        where = drawn | seen
    at = int(where.sum(across).argmax())
    centre = ndimage.center_of_mass(where.take(at, axis))
    place = np.insert(np.asarray(centre), axis, at)
    point = tuple(round(float(p)) + b.start for p, b in zip(place, box, strict=True))
    return Signs(values, other, instead, shift, point)  # type: ignore[arg-type]


def stray_voxels(drawn: np.ndarray, seen: np.ndarray) -> int:
    """Voxels of the pieces of a mask (H, W, D) that come nowhere near a prediction (H, W, D)."""
    pieces, _ = ndimage.label(drawn)
    near = ndimage.distance_transform_edt(~seen) <= NEAR if seen.any() else np.zeros_like(drawn)
    return int((drawn & ~np.isin(pieces, np.unique(pieces[near & drawn]))).sum())


def best_shift(drawn: np.ndarray, own: np.ndarray, axis: int) -> tuple[float, tuple[int, int, int]]:
    """
    Soft Dice that is gained by moving a mask within its slices, and by how many voxels.

    Args:
        drawn: mask (H, W, D) with a rim of :data:`SHIFTS` voxels around it, or less at the border of the image.
        own: probability of its class (H, W, D).
        axis: axis that counts slices.
    """
    total = drawn.sum() + own.sum()
    steps = [range(-SHIFTS, SHIFTS + 1) if other != axis else range(1) for other in range(3)]
    dice = {shift: 2 * float(own[np.roll(drawn, shift, (0, 1, 2))].sum() / total) for shift in product(*steps)}
    best = max(dice, key=lambda shift: (dice[shift], -sum(map(abs, shift))))
    return dice[best] - dice[0, 0, 0], best  # type: ignore[return-value]


def rim(drawn: np.ndarray, own: np.ndarray, axis: int) -> float:
    """
    By how much the edge of a mask lies outside the predicted one, in voxels, between -1 and 1.

    The mean, over the voxels just inside the edge, of the probability that they do not belong to the mask, minus the
    mean probability of those just outside. A rim of one voxel all round gives nearly one. In the volume it is lost
    where models fill one part of a structure wrongly: here each voxel of the edge counts the same, and those that are
    far from the predicted edge do not count. What is much too large or too small is for the volume to say.

    Args:
        drawn: mask (H, W, D), with a voxel around it.
        own: probability of its class (H, W, D).
        axis: axis that counts slices; edges are those within a slice.
    """
    seen = own > 0.5
    sides = np.expand_dims(ndimage.generate_binary_structure(2, 1), axis)
    edge = seen & ~ndimage.binary_erosion(seen, sides)
    apart = [drawn.size if other == axis else 1 for other in range(3)]  # slices are too far apart to be near
    near = ndimage.distance_transform_edt(~edge, apart) <= NEAR if edge.any() else edge
    inside = near & drawn & ~ndimage.binary_erosion(drawn, sides)
    outside = near & ndimage.binary_dilation(drawn, sides) & ~drawn
    return sum(float(part.mean()) for part in (1 - own[inside], -own[outside]) if part.size)


def bounding_box(mask: np.ndarray, rim: int) -> tuple[slice, ...]:
    """The box around a mask, with a rim as far as the image goes."""
    found = ndimage.find_objects(mask.astype(np.uint8))[0]
    return tuple(slice(max(0, s.start - rim), min(n, s.stop + rim)) for s, n in zip(found, mask.shape, strict=True))


def find_contradictions(
    signs: Mapping[tuple[int, int], Signs], groups: Mapping[int, str] | None = None
) -> list[Finding]:
    """
    Rank drawn structures by how far they differ from the models, compared with the same structure in the other images.

    A sign counts in spreads: its distance from the median of all images, by the 90th percentile of these distances. So
    what models always do, such as drawing a structure too small, is no contradiction, and kinds can be compared.

    Args:
        signs: (index of the image, index of the class) -> signs.
        groups: index of the image -> its data set; sizes are compared within data sets of :data:`GROUP` images or more,
            since protocols differ.

    Returns:
        one finding for each, the strongest first.
    """
    findings = []
    for structure in {j for _, j in signs}:
        own = {case: found for (case, j), found in signs.items() if j == structure}
        values = {sign: np.array([found.values[sign] for found in own.values()]) for sign in SIGNS}
        names = np.array([(groups or {}).get(case, "") for case in own])
        for name in set(names.tolist()):
            if (names == name).sum() >= GROUP:
                for sign in ("size", "rim"):
                    values[sign][names == name] -= np.median(values[sign][names == name])
        scores = {sign: spreads(values[sign], FLOORS[sign]) for sign in SIGNS}
        scores["size"] = np.maximum(abs(scores["size"]), abs(scores.pop("rim")))
        for place, (case, found) in enumerate(own.items()):
            by_kind = {kind: score[place] for kind, score in scores.items()}
            kind = strongest(by_kind, found)
            findings.append(Finding(case, structure, kind, float(max(by_kind.values())), found))
    return sorted(findings, key=lambda finding: (-finding.score, finding.case, finding.structure))


def strongest(scores: Mapping[str, float], found: Signs) -> str:
    """The kind that explains a difference: another name and a move explain the others that they cause."""
    kind = max(scores, key=lambda name: scores[name])
    if found.values["name"] > 0:
        return "name"
    if kind in ("stray", "size") and scores["forgotten"] > scores[kind] / 2:
        return "forgotten"
    return kind


def spreads(values: np.ndarray, floor: float) -> np.ndarray:
    """
    Distance of values from their median, in spreads, which are one for a normal distribution.

    The 90th percentile of the distances gives the spread: some signs, such as slices forgotten at the ends of a
    structure, are zero in most images and large in some, and with the median distance these would come first.
    """
    distances = values - np.median(values)
    return distances / max(float(np.quantile(np.abs(distances), 0.9)) / 1.645, floor)
