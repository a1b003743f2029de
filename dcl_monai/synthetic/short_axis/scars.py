"""Scars of the myocardium, which late enhancement shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..draws import FloatArray, uniform
from ..painting import blend
from .anatomy import Anatomy
from .contours import away, lookup
from .heart_shape import HeartShape, Region

_SOFTNESS = 0.25  # width of a scar's edge relative to the wall or to the scar's extent


class Scar(NamedTuple):
    """A patch of the wall: its place in polar coordinates, the layers it takes, its signal relative to blood."""

    angle: float
    width: float  # half extent in radians
    level: float  # position on the long axis, 0 base, 1 apex
    height: float  # half extent on the long axis
    inner: float  # depth in the wall where it begins, 0 endocardium, 1 epicardium
    outer: float  # depth where it ends at its middle; above 1 it is transmural there
    value: float


def draw_scars(rng: np.random.Generator, anatomy: Anatomy, group: str) -> list[Scar]:
    """
    Draw the scars that go with a diagnosis.

    Infarction: a sector from the endocardium outwards, in some subjects with an obstructed dark core. Dilated: often
    a stripe in the middle of the septum. Hypertrophic: patches in the thick sector. Abnormal RV: often small spots
    where its wall meets the septum. Normal: none.
    """
    value = uniform(rng, (0.9, 1.5))
    if group == "MINF":
        infarct = Scar(
            angle=anatomy.thinning_angle,
            width=uniform(rng, (0.6, 1.3)),
            level=anatomy.thinning_level,
            height=uniform(rng, (0.3, 0.6)),
            inner=-1.0,
            outer=uniform(rng, (0.45, 1.4)),
            value=value,
        )
        core = infarct._replace(width=0.5 * infarct.width, height=0.6 * infarct.height, inner=0.1, value=0.2)
        return [infarct, core._replace(outer=0.65 * infarct.outer)] if rng.random() < 0.3 else [infarct]
    if group == "DCM" and rng.random() < 0.6:
        angle = anatomy.septum + rng.normal(0.0, 0.2)
        width, level, height = uniform(rng, (0.5, 0.9)), uniform(rng, (0.2, 0.5)), uniform(rng, (0.25, 0.5))
        return [Scar(angle, width, level, height, inner=0.3, outer=0.7, value=value)]
    if group == "HCM":
        patches = []
        for _ in range(int(rng.integers(1, 4))):
            angle = anatomy.hypertrophy_angle + rng.normal(0.0, 0.5)
            width, level, height = uniform(rng, (0.2, 0.45)), uniform(rng, (0.15, 0.75)), uniform(rng, (0.1, 0.25))
            patches.append(Scar(angle, width, level, height, inner=0.2, outer=0.85, value=value))
        return patches
    if group == "RV" and rng.random() < 0.6:
        level, height = uniform(rng, (0.1, 0.4)), uniform(rng, (0.15, 0.35))
        spot = Scar(anatomy.septum, 0.2, level, height, inner=0.3, outer=0.9, value=value)
        return [spot._replace(angle=anatomy.septum + side) for side in (-1.0, 1.0)]
    return []


def paint_scars(wall: FloatArray, region: Region, heart: HeartShape, scars: Iterable[Scar]) -> None:
    """Paint scars over the signal of the wall ``(D, w, h)`` in place; they get thinner towards their ragged border."""
    depth = heart.left.endo / np.maximum(heart.left.endo - heart.left.epi, np.float32(1e-3))
    for scar in scars:
        along = ((heart.level - scar.level) / scar.height)[:, None]
        around = away(scar.angle + heart.turn) / scar.width
        extent = lookup(np.sqrt(around**2 + along**2).astype(np.float32), region.theta)
        extent += 0.15 * region.flow + 0.05 * region.grain
        outer = scar.outer * np.sqrt(np.clip(1.0 - extent**2, 0.0, 1.0))
        margin = np.minimum(np.minimum(outer - depth, depth - scar.inner), 1.0 - extent)
        blend(wall, scar.value * (1.0 + 0.08 * region.flow), np.clip(0.5 + margin / _SOFTNESS, 0.0, 1.0))
