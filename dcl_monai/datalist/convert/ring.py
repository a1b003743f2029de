"""Which structure encloses which: the myocardium is a ring around the blood pool of the LV."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy.ndimage import binary_fill_holes, find_objects

ENCLOSED = 0.1
"""A structure of which less is enclosed by another one is not taken to lie in a ring."""

Ring = tuple[int, int]
"""Value of a ring, and value of what it encloses."""


def find_ring(label: np.ndarray) -> Ring | None:
    """
    Find the structure that encloses most of another, slice by slice along the last axis.

    Args:
        label: label values (H, W[, D]), 0 for the background.

    Examples:
        >>> find_ring(np.array([[1, 1, 1], [1, 2, 1], [1, 1, 1]]))
        (1, 2)
    """
    if not label.any() or label.ndim not in (2, 3):
        return None
    counts: Counter[Ring] = Counter()
    (window,) = find_objects((label != 0).astype(np.uint8))
    for plane in np.moveaxis(np.atleast_3d(label[window]), -1, 0):
        values = [int(value) for value in np.unique(plane) if value]
        for ring in values:
            inside = plane[binary_fill_holes(plane == ring) & (plane != ring)]
            counts.update((ring, int(value)) for value in inside if value)
    large = [(pair, n) for pair, n in counts.most_common() if n >= ENCLOSED * np.count_nonzero(label == pair[1])]
    return large[0][0] if large else None
