"""Which structure encloses which: the myocardium is a ring around the blood pool of the LV."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from scipy.ndimage import binary_fill_holes

from dcl_monai.utils import DataError

__all__ = ["Rings", "find_rings"]

ENCLOSED = 0.1
"""A structure of which less is enclosed by another one is not taken to lie in a ring."""

Pair = tuple[int, int]
"""Value of a ring, and value of what it encloses."""


def find_rings(label: np.ndarray) -> Counter[Pair]:
    """
    Count the voxels that one structure encloses of another, slice by slice along the last axis.

    Args:
        label: label values (H, W[, D]), 0 for the background.

    Examples:
        >>> find_rings(np.array([[1, 1, 1], [1, 2, 1], [1, 1, 1]]))
        Counter({(1, 2): 1})
    """
    counts: Counter[Pair] = Counter()
    if not label.any() or label.ndim not in (2, 3):
        return counts
    drawn = [np.flatnonzero(label.any(tuple(k for k in range(label.ndim) if k != axis))) for axis in range(label.ndim)]
    box = label[tuple(slice(places[0], places[-1] + 1) for places in drawn)]
    for plane in np.moveaxis(box[..., None] if box.ndim == 2 else box, -1, 0):
        values = [int(value) for value in np.unique(plane) if value]
        for ring in values:
            inside = plane[binary_fill_holes(plane == ring) & (plane != ring)]
            counts.update((ring, int(value)) for value in inside if value)
    return Counter(
        {(ring, value): n for (ring, value), n in counts.items() if n >= ENCLOSED * np.count_nonzero(label == value)}
    )


class Rings:
    """What the rings of many files say; all must say the same."""

    def __init__(self) -> None:
        self.files: dict[Pair, Path] = {}

    def add(self, path: Path, counts: Counter[Pair]) -> None:
        """
        Take in the rings of a file.

        Raises:
            DataError: when another file shows another ring.
        """
        if not counts:
            return
        pair = counts.most_common(1)[0][0]
        self.files.setdefault(pair, path)
        for other, witness in self.files.items():
            if other != pair:
                raise DataError(
                    f"{path}: value {pair[0]} encloses {pair[1]}, but in {witness} value {other[0]} encloses "
                    f"{other[1]}: the files count structures differently. Bring all to one numbering."
                )

    def pair(self) -> Pair | None:
        """The values of the ring and of what it encloses, if any file shows them."""
        return next(iter(self.files), None)

    def witness(self, pair: Pair) -> Path:
        """A file that shows them."""
        return self.files[pair]

    def require(self, pair: Pair, names: dict[int, str]) -> None:
        """Refuse any other ring than this one."""
        found = self.pair()
        if found not in (None, pair):
            raise DataError(
                f"{self.files[found]}: value {found[0]} encloses {found[1]}, but {pair[0]} is {names[pair[0]]}, which "
                f"encloses {pair[1]}, {names[pair[1]]}. Are the values of this copy others? Correct the files."
            )
