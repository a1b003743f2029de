"""How much is to be gained by drawing a structure in an image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import ndimage

from dcl_monai.metrics import expected_dice

MINUTES = 5.0
"""Minutes that a structure takes to draw, where nobody says otherwise."""
THUMBNAIL = (6, 6, 3)


@dataclass(frozen=True)
class Choice:
    """A structure to draw next."""

    case: int  # index of the image
    structure: int  # index of the class
    gain: float  # what the ranking goes by, the larger the better; comparable within one ranking only
    error: float  # expected error of the model there, 1 - Dice
    rarity: float  # how rarely the structure is drawn, 1 for the rarest
    diversity: float  # how unlike what is drawn or chosen already the image is, 0 to 1
    minutes: float  # that it takes


def undrawn_structures(candidates: np.ndarray) -> list[int]:
    """Structures of which something is unknown, by boolean candidate sets (m, H, W, D)."""
    unknown = candidates & (candidates.sum(0) > 1)
    return [j for j in range(1, len(candidates)) if unknown[j].any()]


def expected_error(probabilities: np.ndarray) -> np.ndarray:
    """1 - :func:`~dcl_monai.metrics.expected_dice` of probabilities within the candidate sets (m, H, W, D), (m,)."""
    given = torch.from_numpy(probabilities)
    return 1 - np.array(expected_dice(given, given.argmax(0)))


def image_entropy(probabilities: np.ndarray) -> float:
    """Mean entropy of class probabilities (m, H, W, D) over the voxels in the field of view."""
    seen = probabilities[:, probabilities.sum(0) > 0.5]
    return float(-(seen * np.log(seen + 1e-9)).sum(0).mean()) if seen.size else 0.0


def image_features(image: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """
    What an image looks like, in a few numbers: a thumbnail, and the sizes of its structures.

    Args:
        image: grey values (H, W, D).
        probabilities: class probabilities (m, H, W, D).
    """
    zoom = [new / old for new, old in zip(THUMBNAIL, image.shape, strict=True)]
    smooth = ndimage.gaussian_filter(image.astype(np.float32), [0.5 / z if z < 1 else 0 for z in zoom])
    small = ndimage.zoom(smooth, zoom, order=1, mode="nearest")
    small = (small - small.mean()) / max(float(small.std()), 1e-6)
    sizes = np.log1p(probabilities[1:].reshape(len(probabilities) - 1, -1).sum(1))
    return np.concatenate([small.ravel() / np.sqrt(small.size), sizes / np.sqrt(len(sizes))])


def choose_next(
    errors: Mapping[tuple[int, int], float],
    features: np.ndarray,
    drawn: Iterable[tuple[int, int]],
    count: int,
    minutes: Mapping[int, float] | None = None,
) -> list[Choice]:
    """
    Choose structures to draw, one after the other: expected error x rarity x diversity / minutes.

    Args:
        errors: (image, structure) that is not drawn -> expected error.
        features: what the images look like, (images, features).
        drawn: (image, structure) that is drawn.
        count: number of choices.
        minutes: structure -> minutes; default: :data:`MINUTES`.

    Returns:
        choices, the best first.
    """
    drawn = list(drawn)
    distances = np.linalg.norm(features[:, None] - features[None], axis=-1)
    others = distances[~np.eye(len(distances), dtype=bool)]
    scale = float(np.median(others)) if others.size else 1.0
    counts: dict[int, int] = {}
    for _, j in [*errors, *drawn]:
        counts.setdefault(j, 0)
    for _, j in drawn:
        counts[j] += 1
    left, taken, choices = dict(errors), list(drawn), list[Choice]()

    def rated(case: int, structure: int, error: float) -> Choice:
        rarity = float(np.sqrt((1 + min(counts.values())) / (1 + counts[structure])))
        same = [other for other, j in taken if j == structure]
        nearest = float(distances[case, same].min()) if same else np.inf
        diversity = 1.0 if np.isinf(nearest) else nearest / (nearest + scale) if scale > 0 else 0.5
        cost = (minutes or {}).get(structure, MINUTES)
        return Choice(case, structure, error * rarity * diversity / cost, error, rarity, diversity, cost)

    while left and len(choices) < count:
        choice_of = (rated(*pair, error) for pair, error in left.items())
        best = max(choice_of, key=lambda choice: (choice.gain, -choice.case, -choice.structure))
        choices.append(best)
        del left[best.case, best.structure]
        taken.append((best.case, best.structure))
        counts[best.structure] += 1
    return choices


def choose_images(
    errors: Mapping[tuple[int, int], float],
    features: np.ndarray,
    drawn: Iterable[tuple[int, int]],
    count: int,
    entropies: Sequence[float],
    minutes: Mapping[int, float] | None = None,
) -> list[Choice]:
    """
    Choose images, those with the highest entropy first, with all of their structures that are not drawn.

    :func:`choose_next`, which has the same arguments, orders the structures of an image. Its mean entropy becomes the
    gain.
    """
    choices, drawn = list[Choice](), list(drawn)
    for case in sorted({case for case, _ in errors}, key=lambda case: (-entropies[case], case)):
        own = {pair: error for pair, error in errors.items() if pair[0] == case}
        for choice in choose_next(own, features, drawn, len(own), minutes):
            choices.append(replace(choice, gain=float(entropies[case])))
            drawn.append((case, choice.structure))
    return choices[:count]
