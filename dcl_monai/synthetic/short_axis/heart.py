"""Signal and labels of the heart of one phase."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import label

from ..draws import FloatArray
from ..painting import blend, cover
from .anatomy import Anatomy
from .contours import bump, contour, lookup
from .heart_shape import FAR, HeartShape, Region, shape_heart
from .scars import Scar, paint_scars

LABELS = {"RV": 1, "MYO": 2, "LV": 3}
"""Label value of each structure; 0 is background."""

_SMALLEST_RV_AREA = 45.0  # mm² in a slice


def render_heart(
    anatomy: Anatomy, region: Region, thorax: FloatArray, phase: str, scars: Sequence[Scar] = ()
) -> tuple[FloatArray, NDArray[np.uint8]]:
    """
    Paint the heart of one phase over a copy of a thorax ``(D, W, H)``: its signal (blood 1) and its labels.

    Scars enhance, and stay labelled as myocardium.
    """
    image = thorax.copy()
    labels = np.zeros(anatomy.shape, dtype=np.uint8)
    heart = shape_heart(anatomy, region, phase)
    _paint(image[region.box], anatomy, region, heart, scars)
    _fill_labels(labels[region.box], heart, anatomy.spacing[0] ** 2)
    return image, labels


def _paint(image: FloatArray, anatomy: Anatomy, region: Region, heart: HeartShape, scars: Sequence[Scar]) -> None:
    """Paint ``image`` ``(D, w, h)`` in place, from the outside in."""
    left, right = heart.left, heart.right
    pixel, level, edge, flow, grain = anatomy.spacing[0], heart.level, left.edge, region.flow, region.grain
    blood = (1.0 + 0.07 * flow + 0.02 * grain).astype(np.float32)
    muscle = (anatomy.myocardium * (1.0 + 0.07 * grain + 0.07 * flow)).astype(np.float32)

    # Pericardium, fat, the common wall of all chambers.
    outline = np.minimum.reduce([left.epi, right.distance - anatomy.rv_wall, *(each - 2.0 for each in heart.chambers)])
    fat_table = anatomy.fat_width * (
        0.25 + 1.2 * bump(heart.septum, 1.4) + contour(anatomy.fat_harmonics, heart.septum)
    )
    fat_edge = outline - lookup(np.maximum(fat_table + 2.0 * level[:, None], 0.3).astype(np.float32), region.theta)
    blend(image, 0.2, 0.6 * cover(fat_edge - 1.2, edge))
    blend(image, anatomy.fat * (0.95 + 0.06 * grain + 0.04 * flow), cover(fat_edge, edge))
    blend(image, muscle, cover(outline, edge))

    for chamber in heart.chambers:
        blend(image, muscle, cover(chamber - 1.8, 1.3 * pixel))
        blend(image, blood, cover(chamber, 1.3 * pixel))

    # RV with its trabeculae and, in few slices, the moderator band.
    ragged = anatomy.trabeculae * np.clip(1.3 * grain + 0.4 * flow, 0.0, 2.5)
    blend(image, blood, cover(right.distance + ragged * (0.4 + 0.6 * right.level)[:, None, None], edge))
    band = np.abs(right.band - 2.5 * flow) - 1.4 - 0.8 * grain
    band = np.maximum(band, 16.0 * np.abs(right.level - 0.6)[:, None, None] - 2.5)
    blend(image, muscle, 0.7 * cover(np.maximum(band, right.distance), 2.0 * pixel))

    # LV with its trabeculae and papillary muscles.
    wall = muscle.copy()
    paint_scars(wall, region, heart, scars)
    blend(image, wall, cover(left.epi, edge))
    depth_of_trabeculae = anatomy.trabeculae * np.clip(0.15 + level, 0.15, 0.8)[:, None, None]
    blend(image, blood, cover(left.endo + depth_of_trabeculae * np.clip(grain, 0.0, 2.0), edge))
    for angle, relative, size, position in anatomy.papillary:
        size_here = size * np.clip(1.6 - np.abs(level - position) / 0.25, 0.0, 1.0)[:, None, None]
        radius = np.minimum(relative * left.endo_mean, np.maximum(left.endo_mean - 0.6 * size, 0.0))
        x = region.x - (radius * np.cos(angle + heart.turn))[:, None, None]
        y = region.y - (radius * np.sin(angle + heart.turn))[:, None, None]
        distance = np.maximum(np.sqrt(x * x + y * y) + 1.1 * grain - size_here, left.endo)
        blend(image, muscle, cover(np.where(size_here > 1.0, distance, FAR), 1.4 * pixel))


def _fill_labels(labels: NDArray[np.uint8], heart: HeartShape, area: float) -> None:
    """Fill ``labels`` ``(D, w, h)`` in place; the RV is one piece per slice, or none when it is tiny."""
    right = (heart.right.distance < 0) & (heart.left.epi >= 0)
    for plane in right:
        pieces, _ = label(plane)
        sizes = np.bincount(pieces.ravel())[1:]
        if sizes.size:
            plane &= pieces == (1 + sizes.argmax() if sizes.max() * area >= _SMALLEST_RV_AREA else -1)
    labels[right] = LABELS["RV"]
    labels[heart.left.epi < 0] = LABELS["MYO"]
    labels[heart.left.endo < 0] = LABELS["LV"]
