"""
Solids as signed distances in mm (negative inside) at points ``(3, D, W, H)``.

All arithmetic is element by element: such operations give the same bits on every machine, other than matrix products.
"""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline

from ..draws import FloatArray

_FAR = np.float32(15.0)  # more than any wall, rounding or edge


def vector(*numbers: float) -> FloatArray:
    """Point or direction ``(3,)``."""
    return np.array(numbers, dtype=np.float32)


def dot(direction: FloatArray, points: FloatArray) -> FloatArray:
    """Scalar product of a direction ``(3,)`` and points ``(3, ...)``."""
    x, y, z = points
    return direction[0] * x + direction[1] * y + direction[2] * z


def ellipsoid(points: FloatArray, centre: FloatArray, radii: FloatArray, axes: FloatArray | None = None) -> FloatArray:
    """Ellipsoid with ``radii`` ``(3,)`` along the rows of ``axes`` ``(3, 3)``; the distance is exact on the surface."""
    offset = points - _column(centre)
    if axes is not None:
        offset = np.stack([dot(axis, offset) for axis in axes])
    scaled = offset / _column(radii)
    tiny = np.float32(1e-6)  # at the centre the distance is the smallest radius
    relative = np.maximum(_norm(scaled), tiny)
    slope = np.maximum(_norm(scaled / _column(radii)), tiny / radii.min())
    return relative * (relative - 1.0) / slope


def tube(points: FloatArray, path: FloatArray, radii: FloatArray) -> FloatArray:
    """
    Round tube along a polygon ``(n, 3)`` whose radius goes linearly from one of ``radii`` ``(n,)`` to the next.

    Far away the distance is not computed but constant.
    """
    radii = radii.astype(np.float32)
    low, high = path.min(0) - radii.max() - _FAR, path.max(0) + radii.max() + _FAR
    near = ((points > _column(low)) & (points < _column(high))).all(0)
    close = points[:, near]
    distance = np.full(close.shape[1:], _FAR)
    for start, end, first, last in zip(path[:-1], path[1:], radii[:-1], radii[1:], strict=True):
        offset, step = close - start[:, None], end - start
        along = np.clip(dot(step, offset) / (step**2).sum(), 0.0, 1.0)
        radius = first + along * (last - first)
        np.minimum(distance, _norm(offset - step[:, None] * along) - radius, out=distance)
    result = np.full(points.shape[1:], _FAR)
    result[near] = distance
    return result


def smooth_path(corners: FloatArray, steps: int = 3) -> FloatArray:
    """Polygon ``(m, 3)`` along a smooth curve through ``corners`` ``(n, 3)``, each interval cut in ``steps``."""
    knots = np.arange(len(corners))
    fine = np.linspace(0, len(corners) - 1, steps * (len(corners) - 1) + 1)
    return CubicSpline(knots, corners)(fine).astype(np.float32)


def half_space(points: FloatArray, origin: FloatArray, normal: FloatArray) -> FloatArray:
    """Signed distance from the plane through ``origin``; negative on the side that ``normal`` points away from."""
    return dot(normal / _norm(normal), points - _column(origin))


def union(first: FloatArray, second: FloatArray, rounding: float) -> FloatArray:
    """Both solids, with the edge between them filled over about ``rounding`` mm."""
    overlap = np.maximum(rounding - np.abs(first - second), 0.0)
    return np.minimum(first, second) - overlap**2 * np.float32(0.25 / rounding)


def intersection(first: FloatArray, second: FloatArray, rounding: float) -> FloatArray:
    """What both solids share, with the edge rounded over about ``rounding`` mm."""
    return -union(-first, -second, rounding)


def apart(solid: FloatArray, *others: FloatArray, gap: float = 0.0) -> FloatArray:
    """The part of ``solid`` that is at least ``gap`` mm away from the others."""
    return np.maximum(solid, np.float32(gap) - np.minimum.reduce(others))


def _column(numbers: FloatArray) -> FloatArray:
    return numbers[:, None, None, None]


def _norm(vectors: FloatArray) -> FloatArray:
    x, y, z = vectors
    return np.sqrt(x * x + y * y + z * z)
