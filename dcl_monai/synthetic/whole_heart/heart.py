"""Signal and labels of the heart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import label

from ..draws import FloatArray
from ..painting import blend, cover
from .anatomy import Anatomy
from .heart_shape import HeartShape

LABELS = {"LV": 1, "MYO": 2, "RV": 3, "LA": 4, "RA": 5, "AO": 6, "PA": 7}
"""Label value of each structure; 0 is background."""

_WALLS = {"RV": 3.0, "LA": 2.0, "RA": 2.0, "AO": 1.5, "PA": 1.5}  # thickness in mm; these walls are background


def paint_heart(image: FloatArray, anatomy: Anatomy, heart: HeartShape, flow: FloatArray, grain: FloatArray) -> None:
    """Paint the heart over the signal of a thorax in place, from the outside in, with coarse and fine noise."""
    edge = anatomy.spacing[0]
    blood = 1.0 + 0.06 * flow + 0.02 * grain
    muscle = anatomy.myocardium * (1.0 + 0.07 * grain + 0.07 * flow)

    outside = np.minimum.reduce([heart.epi, *(heart.pools[name] - wall for name, wall in _WALLS.items())])
    blend(image, anatomy.fat * (1.0 + 0.08 * grain), cover(outside - anatomy.fat_width * (1.0 + 0.5 * flow), edge))
    walls = np.minimum.reduce([outside, *(vessel - _WALLS[name] for name, vessel in heart.vessels.items())])
    blend(image, muscle, cover(walls, edge))

    trabeculae = 3.0 * np.clip(grain, 0.0, 2.0) * np.clip(heart.depth / anatomy.length, 0.0, 0.8)
    pools = [heart.pools[name] + trabeculae for name in ("LV", "RV")]
    pools += [np.minimum(heart.pools[name], vessel) for name, vessel in heart.vessels.items()]
    blend(image, blood, cover(np.minimum.reduce(pools), edge))
    chambers = np.minimum.reduce([heart.pools[name] for name in ("LV", "LA", "RV", "RA")])
    leaflets = np.maximum(np.abs(heart.depth - 1.5) - 1.5, chambers)
    blend(image, muscle, 0.5 * cover(leaflets, edge))
    blend(image, muscle, cover(np.maximum(heart.papillary + 0.8 * grain, heart.pools["LV"]), edge))


def label_heart(heart: HeartShape) -> NDArray[np.uint8]:
    """Label map of shape ``(D, W, H)``; each structure is one piece."""
    labels = np.zeros(heart.epi.shape, dtype=np.uint8)
    for name, pool in heart.pools.items():
        labels[_largest_piece(pool < 0)] = LABELS[name]
    labels[_largest_piece((heart.epi < 0) & (labels == 0))] = LABELS["MYO"]
    return labels


def _largest_piece(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    pieces, _ = label(mask)
    return pieces == 1 + np.bincount(pieces.ravel())[1:].argmax()
