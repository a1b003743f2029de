"""Outlines of the heart of one phase as signed distances (negative inside)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..draws import FloatArray, smooth_noise
from .anatomy import Anatomy
from .contours import THETA, across, bump, contour, lookup, taper

FAR = np.float32(50.0)
"""Distance where a structure is absent."""


class Region(NamedTuple):
    """The part ``(D, w, h)`` of the image around the heart, the same for both phases."""

    box: tuple[slice, slice, slice]  # its place in the image
    x: FloatArray  # (D, w, h) coordinates from the LV's centre
    y: FloatArray
    rho: FloatArray
    theta: FloatArray
    flow: FloatArray  # (D, w, h) coarse noise
    grain: FloatArray  # (D, w, h) fine noise


class LeftVentricle(NamedTuple):
    """Cavity and wall, signed distances (D, w, h), and their mean radii per slice."""

    endo: FloatArray  # (D, w, h) cavity
    epi: FloatArray  # (D, w, h) cavity and wall
    endo_mean: FloatArray  # (D,)
    epi_mean: FloatArray  # (D,)
    septal: FloatArray  # (D,) epicardial radius towards the RV
    edge: FloatArray  # (D, 1, 1) width of the edges: oblique walls blur through the thickness of a slice


class RightVentricle(NamedTuple):
    """Cavity beside the LV."""

    distance: FloatArray  # (D, w, h) signed distance; the chambers continue it above the base
    present: NDArray[np.bool_]  # (D,)
    level: FloatArray  # (D,) 0 base, 1 apex of the RV
    band: FloatArray  # (D, w, h) signed distance from the axis of the moderator band


class HeartShape(NamedTuple):
    """The heart of one phase."""

    level: FloatArray  # (D,) position on the long axis, 0 base, 1 apex of the LV cavity
    turn: FloatArray  # (D,) rotation about the long axis
    septum: FloatArray  # (D,) angle of the direction from the LV to the RV
    left: LeftVentricle
    right: RightVentricle
    chambers: list[FloatArray]  # (D, w, h) each, what lies above the ventricles


class _Size(NamedTuple):
    """Lengths of one phase (mm) and what else changes with it."""

    length: float  # of the LV cavity
    base: float  # descent of the base plane
    endo_radius: float
    epi_radius: float
    rv_width: float
    twist: float
    thinning: float


def draw_region(rng: np.random.Generator, anatomy: Anatomy) -> Region:
    """Find the region around the heart and draw its noise."""
    depth, width, height = anatomy.shape
    pixel = anatomy.spacing[0]
    reach = anatomy.epi_radius + anatomy.rv_width + 35.0
    middle = anatomy.centre.mean(0) / pixel + np.array([width - 1, height - 1]) / 2
    lo = np.maximum(np.floor(middle - reach / pixel).astype(int), 0)
    hi = np.minimum(np.ceil(middle + reach / pixel).astype(int) + 1, [width, height])
    columns = (np.arange(lo[0], hi[0], dtype=np.float32) - (width - 1) / 2) * pixel
    rows = (np.arange(lo[1], hi[1], dtype=np.float32) - (height - 1) / 2) * pixel
    x = columns[None, :, None] - anatomy.centre[:, :1, None]
    y = rows[None, None, :] - anatomy.centre[:, 1:, None]
    shape = (depth, len(columns), len(rows))
    return Region(
        box=(slice(None), slice(lo[0], hi[0]), slice(lo[1], hi[1])),
        x=x,
        y=y,
        rho=np.sqrt(x * x + y * y),
        theta=np.arctan2(y, x),
        flow=smooth_noise(rng, shape, 7.0 / pixel),
        grain=smooth_noise(rng, shape, 1.7 / pixel),
    )


def shape_heart(anatomy: Anatomy, region: Region, phase: str) -> HeartShape:
    """Compute the outlines of the heart in one phase, ``"ED"`` or ``"ES"``."""
    size = _size(anatomy, phase)
    level = (anatomy.z - size.base) / size.length
    turn = size.twist * level
    septum = anatomy.septum + turn
    left = _left_ventricle(anatomy, region, size, level, turn, septum)
    right = _right_ventricle(anatomy, region, size, level, septum, left)
    chambers = _chambers(anatomy, region, size, level, septum, left, right)
    right = right._replace(distance=np.where(right.present[:, None, None], right.distance, FAR))
    return HeartShape(level, turn, septum, left, right, chambers)


def _size(anatomy: Anatomy, phase: str) -> _Size:
    """In systole the cavity shrinks and shortens (the base descends); the muscle keeps its volume, so it thickens."""
    endo_radius, epi_radius = anatomy.endo_radius, anatomy.epi_radius
    if phase == "ED":
        return _Size(anatomy.length, 0.0, endo_radius, epi_radius, anatomy.rv_width, anatomy.twist, anatomy.thinning)
    length = anatomy.length * anatomy.shortening
    muscle_area = (epi_radius**2 - endo_radius**2) / anatomy.shortening
    endo_radius *= anatomy.systolic_radius
    return _Size(
        length=length,
        base=0.6 * (anatomy.length - length),
        endo_radius=endo_radius,
        epi_radius=float(np.sqrt(endo_radius**2 + muscle_area)),
        rv_width=anatomy.rv_width * anatomy.rv_systolic,
        twist=anatomy.twist + 0.12,
        thinning=min(1.25 * anatomy.thinning, 0.65),
    )


def _left_ventricle(
    anatomy: Anatomy, region: Region, size: _Size, level: FloatArray, turn: FloatArray, septum: FloatArray
) -> LeftVentricle:
    """Cavity and wall as radius per slice and angle; the wall varies by sector and ends below the cavity's apex."""
    below_base = level >= 0.0
    apex = 1.0 + 0.9 * anatomy.wall / anatomy.length
    endo_mean = size.endo_radius * taper(level)
    epi_mean = size.epi_radius * taper(level / apex)
    shape = 1.0 + contour(anatomy.endo_harmonics, septum) - anatomy.septal_flattening * bump(septum, 0.75)
    sectors = 1.0 + contour(anatomy.wall_harmonics, septum)
    sectors += anatomy.hypertrophy * bump(anatomy.hypertrophy_angle + turn, 0.95)
    infarct = size.thinning * np.exp(-(((level - anatomy.thinning_level) / 0.45) ** 2))
    sectors *= 1.0 - infarct[:, None] * bump(anatomy.thinning_angle + turn, 0.8)
    endo_table = (endo_mean[:, None] * shape).astype(np.float32)
    epi_table = (endo_table + np.maximum((epi_mean - endo_mean)[:, None] * sectors, 3.8)).astype(np.float32)
    endo_table[(endo_mean < 2.5) | ~below_base] = -20.0
    epi_table[(epi_mean < 4.0) | ~below_base] = -20.0
    septal = np.abs(lookup(epi_table, septum[:, None])[:, 0])
    pixel, _, thickness = anatomy.spacing
    step = 0.5 * thickness / size.length
    slope = np.abs(size.epi_radius * (taper((level + step) / apex) - taper((level - step) / apex)))
    return LeftVentricle(
        endo=region.rho - lookup(endo_table, region.theta),
        epi=region.rho - lookup(epi_table, region.theta),
        endo_mean=endo_mean,
        epi_mean=epi_mean,
        septal=np.where(below_base, septal, np.float32(size.epi_radius)),
        edge=np.clip(1.1 * pixel + 0.45 * slope, 0.0, 6.0)[:, None, None].astype(np.float32),
    )


def _right_ventricle(
    anatomy: Anatomy, region: Region, size: _Size, level: FloatArray, septum: FloatArray, left: LeftVentricle
) -> RightVentricle:
    """Ellipse beside the LV as radius per angle around its own centre; the epicardium of the septum cuts it later."""
    below_base = level >= 0.0
    rv_level = np.clip(level / anatomy.rv_apex, 0.0, 1.0)
    narrowing = (1.0 - rv_level**2.6) ** 0.65
    angle = septum + anatomy.rv_skew
    shift = 0.7 * left.septal
    x = region.x - (shift * np.cos(angle))[:, None, None]
    y = region.y - (shift * np.sin(angle))[:, None, None]
    long = left.septal - shift + size.rv_width * np.where(below_base, narrowing, 1.0)
    short = anatomy.rv_breadth * size.epi_radius * np.where(below_base, np.maximum(narrowing, 1e-3), 1.0) ** 0.4
    long, short = long[:, None], short[:, None]
    turned = THETA[None] - angle[:, None]
    ellipse = long * short / np.sqrt((short * np.cos(turned)) ** 2 + (long * np.sin(turned)) ** 2)
    table = (ellipse * (1.0 + contour(anatomy.rv_harmonics, angle))).astype(np.float32)
    distance = np.sqrt(x * x + y * y) - lookup(table, np.arctan2(y, x))
    behind = across(region.x, region.y, septum + 0.5 * np.pi) - 0.15 * left.septal[:, None, None]
    return RightVentricle(
        distance=np.maximum(distance, behind),  # not behind the LV
        present=(level >= anatomy.rv_base) & below_base & (size.rv_width * narrowing > 3.5) & (left.epi_mean > 8.0),
        level=rv_level,
        band=across(x, y, angle + 0.4) - 4.0,
    )


def _chambers(
    anatomy: Anatomy,
    region: Region,
    size: _Size,
    level: FloatArray,
    septum: FloatArray,
    left: LeftVentricle,
    right: RightVentricle,
) -> list[FloatArray]:
    """Right atrium or outflow tract where the RV is absent, left atrium and aortic root where the LV is absent."""
    above_rv = ((level < anatomy.rv_base) & ~right.present)[:, None, None]
    above_lv = (level < 0.0)[:, None, None]
    chambers = [np.where(above_rv, np.maximum(1.1 * right.distance + 4.0, 8.0 - left.epi), FAR)]
    away = septum + np.pi
    for radius, shift, turn in ((0.8, 0.3, 0.5), (0.45, 0.6, 2.2)):
        x = region.x - (shift * size.epi_radius * np.cos(away + turn))[:, None, None]
        y = region.y - (shift * size.epi_radius * np.sin(away + turn))[:, None, None]
        distance = np.sqrt(x * x + 1.2 * y * y) - radius * size.epi_radius + 0.8 * region.flow
        chambers.append(np.where(above_lv, distance, FAR))
    return chambers
