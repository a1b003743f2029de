"""Painting of anti-aliased regions and ellipsoids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .draws import FloatArray


class Ellipsoid(NamedTuple):
    """An organ or vessel: centre and radii in mm, in-plane angle in radians, signal relative to blood."""

    x: float
    y: float
    z: float
    a: float
    b: float
    c: float
    angle: float
    value: float


class Grid(NamedTuple):
    """Coordinates of the voxels in mm."""

    x: FloatArray  # (D, W, H), may be warped
    y: FloatArray  # (D, W, H), may be warped
    z: FloatArray  # (D,)
    pixel: float  # in-plane voxel size


def cover(distance: FloatArray, width: FloatArray | float) -> FloatArray:
    """Anti-aliased mask of the region of negative signed ``distance`` with an edge ``width`` mm wide."""
    return np.clip(0.5 - distance / width, 0.0, 1.0)


def blend(image: FloatArray, value: FloatArray | float, alpha: FloatArray) -> None:
    """Paint ``value`` over ``image`` in place with the opacity ``alpha``."""
    image += alpha * (value - image)


def paint_ellipsoids(
    image: FloatArray, grid: Grid, organs: Iterable[Ellipsoid], mask: FloatArray | None = None
) -> None:
    """Paint ellipsoids over the signal ``image`` ``(D, W, H)`` in place, one after the other, inside of ``mask``."""
    x, y, z, pixel = grid
    x0, y0 = float(x[0].mean()), float(y[0].mean())
    half = np.array(image.shape[1:]) / 2.0
    for organ in organs:
        cos, sin = np.cos(organ.angle), np.sin(organ.angle)
        reach = max(organ.a, organ.b) + 14.0  # the warp moves a point by far less
        middle = np.array([organ.x - x0, organ.y - y0])
        lo = np.maximum(np.floor((middle - reach) / pixel + half).astype(int), 0)
        hi = np.maximum(np.ceil((middle + reach) / pixel + half).astype(int), 0)
        box = (slice(lo[0], hi[0]), slice(lo[1], hi[1]))
        for k, level in enumerate((z - organ.z) / organ.c):
            section = np.sqrt(max(1.0 - float(level) ** 2, 0.0))
            if section < 0.15:
                continue
            dx, dy = x[k][box] - organ.x, y[k][box] - organ.y
            u = (cos * dx + sin * dy) / (organ.a * section)
            v = (cos * dy - sin * dx) / (organ.b * section)
            distance = (np.sqrt(u * u + v * v) - 1.0) * (min(organ.a, organ.b) * section)
            alpha = cover(distance, 1.3 * pixel)
            if mask is not None:
                alpha *= mask[k][box]
            blend(image[k][box], organ.value, alpha)
