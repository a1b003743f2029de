"""
Seeded generator of synthetic short-axis cardiac MR stacks, the project's embedded data set ("synthetic heart").

A subject is a pair of stacks, end-diastole (ED) and end-systole (ES), of a parametric heart inside a parametric
thorax. Every number in this file is a hand-chosen range; no image, mask or statistic of a patient is stored. The
difficulty comes from the anatomy: both blood pools have the same brightness, and so do the descending aorta, the
atria, the vessels and part of the fat; the myocardium is as dark as muscle, liver and the right ventricular wall.
A voxel's intensity alone therefore does not tell its class, while shape and position do.

:func:`write_synthetic_acdc` writes subjects as NIfTI files in the layout of the ACDC challenge. Labels are those of
ACDC: 0 background, 1 right ventricle (RV), 2 left ventricular myocardium (MYO), 3 left ventricular cavity (LV).

Inside the module volumes have the axes ``(D, W, H)`` and lengths are in mm, measured from the heart's centre with
``x`` along ``W`` (anterior to posterior) and ``y`` along ``H`` (towards the diaphragm).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import nibabel as nib
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d, label
from tqdm import tqdm

__all__ = [
    "GENERATOR_VERSION",
    "GROUPS",
    "LABELS",
    "MARKER_NAME",
    "PHASES",
    "SyntheticSubject",
    "synthesize_subject",
    "write_synthetic_acdc",
]

GENERATOR_VERSION = 1
"""Raised whenever the same arguments give other voxels; data sets of another version are rewritten."""

GROUPS = ("NOR", "DCM", "HCM", "MINF", "RV")
"""The diagnosis groups of ACDC: normal, dilated, hypertrophic, infarcted, abnormal right ventricle."""

PHASES = ("ED", "ES")
"""Cardiac phases of a subject."""

LABELS = {"RV": 1, "MYO": 2, "LV": 3}
"""Label value of each structure; 0 is background."""

MARKER_NAME = "phantom.json"
"""Name of the file that marks a folder as a complete data set of this module."""

_PARTIAL_MARKER_NAME = "phantom.incomplete.json"
_GENERATOR_NAME = "dcl_monai.data.phantom"
_SUBJECT_FILE = re.compile(r"(Info\.cfg|patient\d+_frame\d+(_gt)?\.nii\.gz|\.tmp-.*)")

FloatArray = NDArray[np.floating]  # float32 wherever it is large
Range = tuple[float, float]

_ANGLES = 720  # samples of a contour given as a radius per angle
_THETA = np.linspace(-np.pi, np.pi, _ANGLES, endpoint=False, dtype=np.float32)


@dataclass(frozen=True)
class SyntheticSubject:
    """
    One synthetic subject.

    Args:
        images: image of each phase (``"ED"``, ``"ES"``), int16, shape ``(W, H, D)``.
        labels: label map of each phase, uint8, shape ``(W, H, D)``, values 0 (background), 1 (RV), 2 (MYO), 3 (LV).
        spacing: voxel size in mm along ``(W, H, D)``.
        frames: number of the cine frame of each phase, counted from 1.
        group: diagnosis group, one of :data:`GROUPS`.
        num_frames: number of frames of the (not stored) cine series.
        height: body height in cm.
        weight: body weight in kg.
    """

    images: dict[str, NDArray[np.int16]]
    labels: dict[str, NDArray[np.uint8]]
    spacing: tuple[float, float, float]
    frames: dict[str, int]
    group: str
    num_frames: int
    height: float
    weight: float


class _GroupRanges(NamedTuple):
    """Ranges of the shape parameters that differ between the groups (mm at ED, or ratios)."""

    endo_radius: Range  # LV cavity radius at the base
    wall: Range  # mean wall thickness
    systolic_radius: Range  # cavity radius at ES relative to ED
    shortening: Range  # length of the LV at ES relative to ED
    rv_width: Range  # largest extent of the RV away from the septum
    rv_systolic: Range  # RV extent at ES relative to ED
    hypertrophy: Range  # extra relative thickness of one sector of the wall
    thinning: Range = (0, 0)  # relative loss of thickness in an infarcted sector
    septal_flattening: Range = (0, 0)  # relative inward displacement of the septum


_GROUP_RANGES: dict[str, _GroupRanges] = {
    "NOR": _GroupRanges(
        endo_radius=(21, 26),
        wall=(7, 9.5),
        systolic_radius=(0.58, 0.7),
        shortening=(0.86, 0.92),
        rv_width=(27, 40),
        rv_systolic=(0.5, 0.72),
        hypertrophy=(0, 0.2),
    ),
    "DCM": _GroupRanges(
        endo_radius=(28, 35),
        wall=(6.5, 9),
        systolic_radius=(0.82, 0.92),
        shortening=(0.92, 0.96),
        rv_width=(25, 42),
        rv_systolic=(0.65, 0.85),
        hypertrophy=(0, 0.15),
    ),
    "HCM": _GroupRanges(
        endo_radius=(19, 24),
        wall=(10.5, 14),
        systolic_radius=(0.5, 0.64),
        shortening=(0.87, 0.92),
        rv_width=(22, 34),
        rv_systolic=(0.45, 0.68),
        hypertrophy=(0.2, 0.7),
    ),
    "MINF": _GroupRanges(
        endo_radius=(24, 30),
        wall=(7, 9),
        systolic_radius=(0.72, 0.84),
        shortening=(0.89, 0.95),
        rv_width=(22, 36),
        rv_systolic=(0.5, 0.72),
        hypertrophy=(0, 0.2),
        thinning=(0.35, 0.6),
    ),
    "RV": _GroupRanges(
        endo_radius=(19, 24),
        wall=(6.5, 9),
        systolic_radius=(0.6, 0.74),
        shortening=(0.88, 0.93),
        rv_width=(38, 54),
        rv_systolic=(0.68, 0.88),
        hypertrophy=(0, 0.2),
        septal_flattening=(0.04, 0.16),
    ),
}


@dataclass(frozen=True)
class _Anatomy:
    """Everything that is drawn once per subject and shared by its two phases."""

    shape: tuple[int, int, int]  # (D, W, H)
    spacing: tuple[float, float, float]  # (W, H, D)
    z: FloatArray  # (D,) position of the slices below the ED base plane
    centre: FloatArray  # (D, 2) heart centre relative to the image centre
    length: float  # ED length of the LV cavity
    endo_radius: float
    wall: float
    septum: float  # angle of the direction from the LV to the RV
    twist: float  # rotation of the septum from base to apex
    rv_width: float
    rv_breadth: float  # half extent of the RV along the septum, relative to the epicardial radius
    rv_apex: float  # where the RV ends on the long axis (0 base, 1 apex of the LV cavity)
    rv_base: float  # where the RV begins
    rv_skew: float  # angle between the RV's centre and the septum's direction
    rv_harmonics: FloatArray  # (n, 3) order, amplitude, phase
    endo_harmonics: FloatArray
    wall_harmonics: FloatArray
    papillary: FloatArray  # (n, 4) angle, relative radius, size in mm, position on the long axis
    fat_harmonics: FloatArray
    fat_width: float
    ranges: dict[str, float]  # drawn values of the remaining group ranges
    hypertrophy_angle: float
    thinning_angle: float
    thinning_level: float
    myocardium: float  # signals relative to blood
    fat: float
    rv_wall: float  # thickness of the RV's free wall
    trabeculae: float  # depth of the trabeculated layer


def _uniform(rng: np.random.Generator, limits: Range) -> float:
    return float(rng.uniform(*limits))


def _harmonics(rng: np.random.Generator, orders: Iterable[int], amplitude: float) -> FloatArray:
    """Draw ``(n, 3)`` rows of order, amplitude (falling with the order) and phase."""
    rows = [(m, amplitude * rng.normal() * 2.0 / m, rng.uniform(-np.pi, np.pi)) for m in orders]
    return np.array(rows, dtype=np.float32)


def _contour(harmonics: FloatArray, twist: FloatArray) -> FloatArray:
    """Sum of harmonics over :data:`_THETA`, turned by ``twist`` ``(D,)``; returns ``(D, angles)``."""
    theta = _THETA[None] - twist[:, None]
    total = np.zeros_like(theta)
    for order, amplitude, phase in harmonics:
        total += amplitude * np.cos(order * theta + phase)
    return total


def _bump(centre: FloatArray | float, width: float) -> FloatArray:
    """Smooth bump of height 1 around the angle(s) ``centre``; returns ``(D, angles)`` or ``(1, angles)``."""
    delta = _THETA[None] - np.atleast_1d(np.asarray(centre, dtype=np.float32))[:, None]
    delta = np.angle(np.exp(1j * delta)).astype(np.float32)
    return np.exp(-((delta / width) ** 2))


def _lookup(table: FloatArray, theta: FloatArray) -> FloatArray:
    """Read ``table`` ``(D, angles)`` at the angles ``theta`` ``(D, ...)``."""
    scale = np.float32(_ANGLES / (2 * np.pi))
    index = ((theta + np.float32(np.pi)) * scale + np.float32(0.5)).astype(np.intp) % _ANGLES
    index += (np.arange(table.shape[0]) * _ANGLES).reshape(-1, *([1] * (theta.ndim - 1)))
    return table.ravel()[index]


def _across(x: FloatArray, y: FloatArray, angle: FloatArray) -> FloatArray:
    """Signed distance of ``(D, ...)`` points from the line through the origin with the direction ``angle`` ``(D,)``."""
    return y * np.cos(angle)[:, None, None] - x * np.sin(angle)[:, None, None]


def _cover(distance: FloatArray, width: FloatArray | float) -> FloatArray:
    """Anti-aliased mask of the region of negative signed ``distance`` with an edge ``width`` mm wide."""
    return np.clip(0.5 - distance / width, 0.0, 1.0)


def _blend(image: FloatArray, value: FloatArray | float, alpha: FloatArray) -> None:
    """Paint ``value`` over ``image`` in place with the opacity ``alpha``."""
    image += alpha * (value - image)


def _taper(level: FloatArray | float) -> FloatArray:
    """Relative radius on the long axis: 1 near the base (``level`` 0), 0 from the apex (``level`` 1) on."""
    u = np.clip((np.asarray(level, dtype=np.float32) - 0.1) / 0.9, 0.0, 1.0)
    return (1.0 - u**2.4) ** 0.55


def _smooth_noise(
    rng: np.random.Generator, shape: tuple[int, int, int], correlation: float, shared: float = 0.0
) -> FloatArray:
    """
    Draw smooth Gaussian noise of unit variance.

    Args:
        rng: random generator.
        shape: ``(D, W, H)``.
        correlation: in-plane standard deviation of the smoothing kernel in voxels.
        shared: share (0 to 1) of the variance that all slices have in common.

    Returns:
        Noise of shape ``(D, W, H)``.
    """
    kernels = []
    for size in shape[1:]:
        nodes = np.arange(-2.0, size / correlation + 3.0) * correlation
        kernel = np.exp(-0.5 * ((np.arange(size)[:, None] - nodes[None]) / correlation) ** 2)
        kernels.append((kernel / np.sqrt((kernel**2).sum(1, keepdims=True))).astype(np.float32))
    grid = (kernels[0].shape[1], kernels[1].shape[1])
    coarse = np.sqrt(1.0 - shared) * rng.standard_normal((shape[0], *grid), dtype=np.float32)
    if shared > 0:
        coarse += np.sqrt(shared) * rng.standard_normal((1, *grid), dtype=np.float32)
    return (kernels[0] @ coarse.astype(np.float32) @ kernels[1].T).astype(np.float32)


def _draw_anatomy(rng: np.random.Generator, group: str) -> _Anatomy:
    """Draw the shape, signal and field-of-view parameters of one subject of ``group``."""
    ranges = _GROUP_RANGES[group]
    scale = float(np.clip(rng.normal(1.0, 0.06), 0.87, 1.14))
    endo_radius = scale * _uniform(rng, ranges.endo_radius)
    wall = scale * _uniform(rng, ranges.wall)
    rv_width = scale * _uniform(rng, ranges.rv_width)
    length = scale * _uniform(rng, (74, 92)) + 0.5 * max(endo_radius - 26.0, 0.0)

    pixel = _uniform(rng, (1.3, 1.9))
    thickness = float(rng.choice([5.0, 6.0, 7.0, 8.0, 9.0, 10.0], p=[0.04, 0.06, 0.1, 0.25, 0.1, 0.45]))
    depth = int(np.clip(round(0.94 * length / thickness + rng.uniform(-0.6, 0.9)), 6, 11))
    z = rng.uniform(0.1, 1.3) * thickness + thickness * np.arange(depth)
    if z[-1] < 0.8 * length:  # thin slices do not reach the apex: such a stack is centred on the heart
        z += rng.uniform(0.3, 0.7) * (0.9 * length - z[-1])
    width = int(np.clip(round(_uniform(rng, (260, 345)) / pixel), 150, 230))
    height = int(np.clip(round(width * _uniform(rng, (0.85, 1.25))), 150, 230))

    offset = rng.uniform(-25, 25, size=2)
    tilt = rng.normal(0.0, 0.06, size=2)  # drift of the centre along the stack (oblique long axis)
    shifts = np.clip(rng.normal(0.0, 1.3, size=(depth, 2)), -3.5, 3.5)  # breath-hold misregistration
    centre = offset + (z - 0.4 * length)[:, None] * tilt + shifts

    septum = np.radians(158.0 + rng.uniform(-25, 25))
    papillary = []
    for side in (-1, 1):
        turn = np.radians(side * rng.uniform(85, 125))
        papillary.append((septum + turn, rng.uniform(0.58, 0.75), rng.uniform(3.2, 5.8), rng.uniform(0.4, 0.6)))
    if rng.random() < 0.4:
        turn = rng.uniform(1.8, 4.4)
        papillary.append((septum + turn, rng.uniform(0.6, 0.8), rng.uniform(2.0, 3.2), rng.uniform(0.4, 0.7)))
    return _Anatomy(
        shape=(depth, width, height),
        spacing=(round(pixel, 4), round(pixel, 4), thickness),
        z=z.astype(np.float32),
        centre=centre.astype(np.float32),
        length=length,
        endo_radius=endo_radius,
        wall=wall,
        septum=float(septum),
        twist=float(np.radians(rng.normal(0.0, 9.0))),
        rv_width=rv_width,
        rv_breadth=_uniform(rng, (0.95, 1.25)),
        rv_apex=_uniform(rng, (0.78, 1.0)),
        rv_base=_uniform(rng, (-0.02, 0.1)),
        rv_skew=float(np.radians(rng.normal(0.0, 9.0))),
        rv_harmonics=np.concatenate([_harmonics(rng, (3,), 0.1), _harmonics(rng, (2, 4, 5, 7), 0.04)]),
        endo_harmonics=np.concatenate([_harmonics(rng, (2,), 0.045), _harmonics(rng, (3, 4, 5, 7), 0.03)]),
        wall_harmonics=_harmonics(rng, (1, 2, 3), 0.07),
        papillary=np.array(papillary, dtype=np.float32),
        fat_harmonics=_harmonics(rng, (1, 2, 3, 5, 7), 0.45),
        fat_width=_uniform(rng, (2.0, 7.0)),
        ranges={
            name: _uniform(rng, getattr(ranges, name))
            for name in ("systolic_radius", "shortening", "rv_systolic", "hypertrophy", "thinning", "septal_flattening")
        },
        hypertrophy_angle=float(septum + rng.normal(0.0, 0.5)),
        thinning_angle=_uniform(rng, (-np.pi, np.pi)),
        thinning_level=_uniform(rng, (0.4, 0.85)),
        myocardium=_uniform(rng, (0.28, 0.52)),
        fat=_uniform(rng, (0.9, 1.35)),
        rv_wall=_uniform(rng, (2.0, 3.5)),
        trabeculae=_uniform(rng, (1.5, 4.5)),
    )


class _Ellipsoid(NamedTuple):
    """An organ or vessel: centre and radii in mm, in-plane angle in radians, signal relative to blood."""

    x: float
    y: float
    z: float
    a: float
    b: float
    c: float
    angle: float
    value: float


def _paint_ellipsoids(
    image: FloatArray,
    x: FloatArray,
    y: FloatArray,
    z: FloatArray,
    pixel: float,
    organs: Iterable[_Ellipsoid],
    mask: FloatArray | None = None,
) -> None:
    """
    Paint ellipsoids over ``image`` in place.

    Args:
        image: signal, shape ``(D, W, H)``.
        x: first coordinate of the voxels, may be warped, shape ``(D, W, H)``.
        y: second coordinate of the voxels, same shape.
        z: position of the slices, shape ``(D,)``.
        pixel: in-plane voxel size.
        organs: what to paint, in this order.
        mask: opacity limit, shape ``(D, W, H)``.
    """
    x0, y0 = float(x[0].mean()), float(y[0].mean())
    half = np.array(image.shape[1:]) / 2.0
    for organ in organs:
        cos, sin = np.cos(organ.angle), np.sin(organ.angle)
        reach = max(organ.a, organ.b) + 14.0  # the warp moves a point by far less
        lo = np.floor((np.array([organ.x - x0, organ.y - y0]) - reach) / pixel + half).astype(int)
        hi = np.ceil((np.array([organ.x - x0, organ.y - y0]) + reach) / pixel + half).astype(int)
        box = (slice(max(lo[0], 0), max(hi[0], 0)), slice(max(lo[1], 0), max(hi[1], 0)))
        for k, level in enumerate((z - organ.z) / organ.c):
            section = np.sqrt(max(1.0 - float(level) ** 2, 0.0))
            if section < 0.15:
                continue
            dx, dy = x[k][box] - organ.x, y[k][box] - organ.y
            u = (cos * dx + sin * dy) / (organ.a * section)
            v = (cos * dy - sin * dx) / (organ.b * section)
            distance = (np.sqrt(u * u + v * v) - 1.0) * (min(organ.a, organ.b) * section)
            alpha = _cover(distance, 1.3 * pixel)
            if mask is not None:
                alpha *= mask[k][box]
            _blend(image[k][box], organ.value, alpha)


def _render_thorax(rng: np.random.Generator, anatomy: _Anatomy) -> FloatArray:
    """Paint everything but the heart: chest wall, lungs, abdominal organs, vessels; returns ``(D, W, H)``, blood 1."""
    depth, width, height = anatomy.shape
    pixel = anatomy.spacing[0]
    z, fat = anatomy.z, anatomy.fat
    level = np.clip(z / anatomy.length, 0.0, 1.2)
    epi = anatomy.endo_radius + anatomy.wall
    muscle, lung = _uniform(rng, (0.18, 0.34)), _uniform(rng, (0.05, 0.14))
    liver = _uniform(rng, (0.28, 0.6))

    # Coordinates follow the heart, with a warp that gives every outline an irregular shape.
    origin = anatomy.centre - 0.4 * (anatomy.centre - anatomy.centre.mean(0))
    x = (np.arange(width, dtype=np.float32)[None, :, None] - (width - 1) / 2) * pixel - origin[:, :1, None]
    y = (np.arange(height, dtype=np.float32)[None, None, :] - (height - 1) / 2) * pixel - origin[:, 1:, None]
    warp_x = 3.5 * _smooth_noise(rng, anatomy.shape, 11.0 / pixel, 0.75)
    warp_y = 3.5 * _smooth_noise(rng, anatomy.shape, 11.0 / pixel, 0.75)
    dx, dy = x + 0.3 * warp_x, y + 0.3 * warp_y
    x, y = x + warp_x, y + warp_y
    texture = _smooth_noise(rng, anatomy.shape, 5.0 / pixel, 0.4)
    fine = _smooth_noise(rng, anatomy.shape, 1.8 / pixel, 0.0)

    # Body outline around a point behind the heart, as radius per angle; it narrows towards the apex.
    body_x, body_y = 42.0, 18.0
    fat_layer = _uniform(rng, (5, 18))
    anterior = abs(np.cos(anatomy.septum)) * (epi + 0.8 * anatomy.rv_width) + _uniform(rng, (6, 18))
    superior, posterior = _uniform(rng, (70, 98)), _uniform(rng, (75, 115))
    cos, sin = np.cos(_THETA), np.sin(_THETA)
    side = np.where(cos < 0, anterior + body_x, posterior)
    end = np.where(sin < 0, superior + body_y, 260.0)
    inner = 1.0 / (np.abs(cos / side) ** 2.4 + np.abs(sin / end) ** 2.4) ** (1 / 2.4)
    narrowing = 1.0 - level[:, None] * (_uniform(rng, (0.08, 0.24)) * np.clip(0.3 * cos - sin, 0.0, 1.0))[None]
    waves = 1.0 + _contour(_harmonics(rng, (2, 3, 4, 5), 0.03), 0.3 * level)
    inner = (inner[None] * narrowing * waves).astype(np.float32)
    fat_table = fat_layer * (1.0 + 0.8 * _contour(_harmonics(rng, (1, 2, 3), 0.5), level)) + 3.0 + 10.0 * level[:, None]
    wall_layer = _uniform(rng, (8, 14))
    outer = (inner + wall_layer + np.maximum(fat_table, 3.0)).astype(np.float32)

    dx, dy = dx - body_x, dy - body_y
    rho, theta = np.sqrt(dx * dx + dy * dy), np.arctan2(dy, dx)
    inner_distance = rho - _lookup(inner, theta)
    outer_distance = rho - _lookup(outer, theta)
    ribs = 0.5 + 0.5 * np.cos(rng.integers(10, 17) * _THETA + rng.uniform(-np.pi, np.pi))
    ribs = _lookup((np.repeat(ribs[None], depth, 0) ** 3).astype(np.float32), theta)
    layer = np.exp(-(((inner_distance - 0.5 * wall_layer) / (0.3 * wall_layer)) ** 2))

    image = np.full(anatomy.shape, 0.01, dtype=np.float32)
    if rng.random() < 0.5:  # an arm beside the chest
        arm_x, arm_y = posterior + body_x + _uniform(rng, (25, 60)), _uniform(rng, (-90, 20))
        radius = _uniform(rng, (26, 36))
        arm = [
            _Ellipsoid(arm_x, arm_y, 0.0, part * radius, 1.1 * part * radius, 250, 0.3, value)
            for part, value in ((1.0, 0.9 * fat), (0.75, muscle), (0.3, 0.6 * fat))
        ]
        _paint_ellipsoids(image, x, y, z, pixel, arm)
    stripes = 1.0 + 0.12 * np.cos(outer_distance * 0.7 + 2.0 * texture) * (rng.random() < 0.5)
    _blend(image, fat * stripes * (1.0 + 0.08 * texture), _cover(outer_distance, 1.5 * pixel))
    chest = muscle * (1.0 + 0.15 * texture) + layer * ribs * (0.9 * fat - muscle)
    _blend(image, chest, _cover(inner_distance - wall_layer - 1.5 * fine, 1.5 * pixel))
    inside = _cover(inner_distance - 0.8 * fine, 1.3 * pixel)
    _blend(image, lung * (1.0 + 0.3 * fine), inside)

    # Vessels of the lungs.
    vessels = []
    for _ in range(int(rng.integers(45, 90))):
        size = 1.2 + rng.exponential(0.9)
        position = (rng.uniform(-70, 130), rng.uniform(-95, 60), rng.uniform(-10, anatomy.length))
        radii = (size * rng.uniform(1, 2.2), size, rng.uniform(4, 14))
        vessels.append(_Ellipsoid(*position, *radii, rng.uniform(0, np.pi), rng.uniform(0.3, 1.0)))
    _paint_ellipsoids(image, x, y, z, pixel, vessels, inside)

    # Fat between the heart and the sternum.
    retrosternal = x + _uniform(rng, (12, 34)) - 0.35 * y + 5.0 * texture
    _blend(image, fat * (0.92 + 0.1 * texture), inside * _cover(retrosternal, 3.0))

    # Abdomen below the diaphragm: fat and bowel, liver, stomach, spleen, spine.
    dome = epi * (0.45 + 0.55 * _taper(level / 1.15)) + _uniform(rng, (1, 10))
    dome = dome[:, None, None] + ((x - _uniform(rng, (-10, 40))) / _uniform(rng, (17, 26))) ** 2
    below = _cover(dome - y, 1.5 * pixel) * inside
    _blend(image, muscle, _cover(dome - y - 2.5, 2.0 * pixel) * inside)
    folds = _smooth_noise(rng, anatomy.shape, _uniform(rng, (5, 10)) / pixel, 0.5)
    bowel = 0.9 * liver + (0.9 * fat - 0.9 * liver) * _cover(_uniform(rng, (-0.2, 1.0)) - folds - 0.3 * texture, 0.8)
    _blend(image, bowel * (1.0 + 0.1 * fine), below)
    bottom = epi + 6.0

    def organ(x: Range, y: Range, z: Range, a: Range, b: Range, c: Range, angle: float, value: float) -> _Ellipsoid:
        position = (_uniform(rng, x), bottom + _uniform(rng, y), _uniform(rng, z))
        radii = (_uniform(rng, a), _uniform(rng, b), _uniform(rng, c))
        return _Ellipsoid(*position, *radii, rng.normal(angle, 0.25), value)

    spleen, spine = _uniform(rng, (0.4, 0.75)), _uniform(rng, (0.3, 0.6))
    stomach = organ((35, 75), (22, 40), (10, 70), (24, 40), (18, 30), (35, 80), 0.3, 0.9 * muscle + 0.1)
    content = float(rng.choice([rng.uniform(0.3, 0.55), rng.uniform(0.85, 1.15), 0.08]))  # food, fluid or gas
    abdomen = [
        organ((-60, -15), (32, 52), (-10, 40), (58, 88), (34, 50), (60, 110), 0.0, liver),
        stomach,
        stomach._replace(a=stomach.a - 3.0, b=stomach.b - 3.0, c=stomach.c - 2.0, value=content),
        organ((85, 125), (10, 40), (-10, 30), (14, 22), (26, 42), (40, 80), 0.0, spleen),
        organ((60, 95), (75, 100), (0, 40), (20, 23), (17, 20), (140, 160), 0.0, spine),
    ]
    for _ in range(int(rng.integers(3, 8))):  # hepatic vessels, bowel loops and other blood-like spots
        turn = rng.uniform(0, np.pi)
        abdomen.append(
            organ((-80, 110), (12, 80), (-10, anatomy.length), (3, 9), (2.5, 6), (12, 40), turn, rng.uniform(0.8, 1.1))
        )
    _paint_ellipsoids(image, x, y, z, pixel, abdomen, below)

    # Descending aorta behind the heart, with its wall, and the vena cava: as bright as the blood pools.
    angle = np.radians(_uniform(rng, (15, 75)))
    aorta_radius = _uniform(rng, (9, 13))
    reach = epi + aorta_radius + _uniform(rng, (4, 22))
    cava = (-_uniform(rng, (5, 40)), bottom + _uniform(rng, (8, 22)), -15.0)
    great_vessels = []
    for value, extra in ((0.8 * muscle + 0.05, 1.8), (1.0, 0.0)):
        radius = aorta_radius + extra
        great_vessels += [
            _Ellipsoid(reach * np.cos(angle), reach * np.sin(angle), -20.0, radius, 0.95 * radius, 160, 0.0, value),
            _Ellipsoid(*cava, 11 + 0.6 * extra, 8 + 0.6 * extra, 55, 0.4, value),
        ]
    _paint_ellipsoids(image, x, y, z, pixel, great_vessels, inside)
    image *= 1.0 + 0.05 * fine + 0.04 * texture
    return image


def _render_heart(
    rng: np.random.Generator, anatomy: _Anatomy, phase: str, image: FloatArray
) -> tuple[FloatArray, NDArray[np.uint8]]:
    """
    Paint the heart of one phase over a thorax.

    Args:
        rng: random generator of the textures, in the same state for both phases.
        anatomy: parameters of the subject.
        phase: ``"ED"`` or ``"ES"``.
        image: thorax, shape ``(D, W, H)``; not changed.

    Returns:
        Signal (blood 1) and label map, both of shape ``(D, W, H)``.
    """
    _, width, height = anatomy.shape
    pixel, thickness = anatomy.spacing[0], anatomy.spacing[2]
    image = image.copy()
    labels = np.zeros(anatomy.shape, dtype=np.uint8)
    drawn = anatomy.ranges
    endo_radius, epi_radius = anatomy.endo_radius, anatomy.endo_radius + anatomy.wall
    rv_width, length = anatomy.rv_width, anatomy.length
    base, twist, thinning = 0.0, anatomy.twist, drawn["thinning"]
    if phase == "ES":
        # The cavity shrinks and shortens (the base descends); the volume of the muscle stays, so the wall thickens.
        length *= drawn["shortening"]
        base = 0.6 * (anatomy.length - length)
        muscle_area = (epi_radius**2 - endo_radius**2) / drawn["shortening"]
        endo_radius *= drawn["systolic_radius"]
        epi_radius = float(np.sqrt(endo_radius**2 + muscle_area))
        rv_width *= drawn["rv_systolic"]
        twist += 0.12
        thinning = min(1.25 * thinning, 0.65)
    level = (anatomy.z - base) / length
    ventricle = level >= 0.0
    septum = anatomy.septum + twist * level

    # Region of interest and polar coordinates around the LV's centre.
    reach = anatomy.endo_radius + anatomy.wall + anatomy.rv_width + 35.0
    middle = anatomy.centre.mean(0) / pixel + np.array([width - 1, height - 1]) / 2
    lo = np.maximum(np.floor(middle - reach / pixel).astype(int), 0)
    hi = np.minimum(np.ceil(middle + reach / pixel).astype(int) + 1, [width, height])
    box = (slice(None), slice(lo[0], hi[0]), slice(lo[1], hi[1]))
    view = image[box]
    columns = (np.arange(lo[0], hi[0], dtype=np.float32) - (width - 1) / 2) * pixel
    rows = (np.arange(lo[1], hi[1], dtype=np.float32) - (height - 1) / 2) * pixel
    x = columns[None, :, None] - anatomy.centre[:, :1, None]
    y = rows[None, None, :] - anatomy.centre[:, 1:, None]
    rho, theta = np.sqrt(x * x + y * y), np.arctan2(y, x)
    flow = _smooth_noise(rng, view.shape, 7.0 / pixel)
    grain = _smooth_noise(rng, view.shape, 1.7 / pixel)

    # LV contours, radius per slice and angle.
    apex = 1.0 + 0.9 * anatomy.wall / anatomy.length
    endo_mean = endo_radius * _taper(level)
    epi_mean = epi_radius * _taper(level / apex)
    shape = 1.0 + _contour(anatomy.endo_harmonics, septum) - drawn["septal_flattening"] * _bump(septum, 0.75)
    sectors = 1.0 + _contour(anatomy.wall_harmonics, septum)
    sectors += drawn["hypertrophy"] * _bump(anatomy.hypertrophy_angle + twist * level, 0.95)
    infarct = thinning * np.exp(-(((level - anatomy.thinning_level) / 0.45) ** 2))
    sectors *= 1.0 - infarct[:, None] * _bump(anatomy.thinning_angle + twist * level, 0.8)
    endo_table = (endo_mean[:, None] * shape).astype(np.float32)
    epi_table = (endo_table + np.maximum((epi_mean - endo_mean)[:, None] * sectors, 3.8)).astype(np.float32)
    endo_table[endo_mean < 2.5] = -20.0
    epi_table[(epi_mean < 4.0) | ~ventricle] = -20.0
    endo_table[~ventricle] = -20.0
    endo = rho - _lookup(endo_table, theta)
    epi = rho - _lookup(epi_table, theta)

    # RV: an ellipse beside the LV, cut by the epicardium of the septum, as radius per angle around its own centre.
    rv_level = np.clip(level / anatomy.rv_apex, 0.0, 1.0)
    rv_taper = (1.0 - rv_level**2.6) ** 0.65
    rv_present = (level >= anatomy.rv_base) & ventricle & (rv_width * rv_taper > 3.5) & (epi_mean > 8.0)
    septal = np.abs(_lookup(epi_table, septum[:, None])[:, 0])
    septal = np.where(ventricle, septal, np.float32(epi_radius))
    rv_angle = septum + anatomy.rv_skew
    rv_shift = 0.7 * septal
    rv_along = septal - rv_shift + rv_width * np.where(ventricle, rv_taper, 1.0)
    rv_across = anatomy.rv_breadth * epi_radius * np.where(ventricle, np.maximum(rv_taper, 1e-3), 1.0) ** 0.4
    rv_x = x - (rv_shift * np.cos(rv_angle))[:, None, None]
    rv_y = y - (rv_shift * np.sin(rv_angle))[:, None, None]
    rv_rho, rv_theta = np.sqrt(rv_x * rv_x + rv_y * rv_y), np.arctan2(rv_y, rv_x)
    turned = _THETA[None] - rv_angle[:, None]
    long, short = rv_along[:, None], rv_across[:, None]
    ellipse = long * short / np.sqrt((short * np.cos(turned)) ** 2 + (long * np.sin(turned)) ** 2)
    rv_table = (ellipse * (1.0 + _contour(anatomy.rv_harmonics, rv_angle))).astype(np.float32)
    right = rv_rho - _lookup(rv_table, rv_theta)
    right = np.maximum(right, _across(x, y, septum + 0.5 * np.pi) - 0.15 * septal[:, None, None])  # not behind the LV
    right_ventricle = np.where(rv_present[:, None, None], right, np.float32(50.0))

    # Above the ventricles: right atrium or outflow tract (RV absent), left atrium and aortic root (LV absent).
    chambers = []
    above = ((level < anatomy.rv_base) & ~rv_present)[:, None, None]
    chambers.append(np.where(above, np.maximum(1.1 * right + 4.0, 8.0 - epi), np.float32(50.0)))
    away = septum + np.pi
    for radius, shift, turn in ((0.8, 0.3, 0.5), (0.45, 0.6, 2.2)):
        ax = x - (shift * epi_radius * np.cos(away + turn))[:, None, None]
        ay = y - (shift * epi_radius * np.sin(away + turn))[:, None, None]
        distance = np.sqrt(ax * ax + 1.2 * ay * ay) - radius * epi_radius + 0.8 * flow
        chambers.append(np.where(ventricle[:, None, None], np.float32(50.0), distance))
    atrial = np.minimum.reduce(chambers)

    # Painting, from the outside in. Oblique walls blur through the thickness of a slice.
    step = 0.5 * thickness / length
    slope = np.abs(epi_radius * (_taper((level + step) / apex) - _taper((level - step) / apex)))
    edge = np.clip(1.1 * pixel + 0.45 * slope, 0.0, 6.0)[:, None, None].astype(np.float32)
    outline = np.minimum(np.minimum(epi, right_ventricle - anatomy.rv_wall), atrial - 2.0)
    fat_table = anatomy.fat_width * (0.25 + 1.2 * _bump(septum, 1.4) + _contour(anatomy.fat_harmonics, septum))
    fat_edge = outline - _lookup(np.maximum(fat_table + 2.0 * level[:, None], 0.3).astype(np.float32), theta)
    _blend(view, 0.2, 0.6 * _cover(fat_edge - 1.2, edge))  # pericardium
    _blend(view, anatomy.fat * (0.95 + 0.06 * grain + 0.04 * flow), _cover(fat_edge, edge))
    blood = (1.0 + 0.07 * flow + 0.02 * grain).astype(np.float32)
    muscle = (anatomy.myocardium * (1.0 + 0.07 * grain + 0.07 * flow)).astype(np.float32)
    _blend(view, muscle, _cover(outline, edge))
    for chamber in chambers:
        _blend(view, muscle, _cover(chamber - 1.8, 1.3 * pixel))
        _blend(view, blood, _cover(chamber, 1.3 * pixel))
    ragged = anatomy.trabeculae * np.clip(1.3 * grain + 0.4 * flow, 0.0, 2.5)
    inner = right_ventricle + ragged * (0.4 + 0.6 * rv_level)[:, None, None]
    _blend(view, blood, _cover(inner, edge))
    band = np.abs(_across(rv_x, rv_y, rv_angle + 0.4) - 4.0 - 2.5 * flow) - 1.4 - 0.8 * grain
    band = np.maximum(band, 16.0 * np.abs(rv_level - 0.6)[:, None, None] - 2.5)  # moderator band, in few slices
    _blend(view, muscle, 0.7 * _cover(np.maximum(band, right_ventricle), 2.0 * pixel))
    _blend(view, muscle, _cover(epi, edge))
    depth_of_trabeculae = anatomy.trabeculae * np.clip(0.15 + level, 0.15, 0.8)[:, None, None]
    _blend(view, blood, _cover(endo + depth_of_trabeculae * np.clip(grain, 0.0, 2.0), edge))
    for angle, relative, size, position in anatomy.papillary:
        size_here = size * np.clip(1.6 - np.abs(level - position) / 0.25, 0.0, 1.0)[:, None, None]
        distance = np.minimum(relative * endo_mean, np.maximum(endo_mean - 0.6 * size, 0.0))
        px = x - (distance * np.cos(angle + twist * level))[:, None, None]
        py = y - (distance * np.sin(angle + twist * level))[:, None, None]
        muscle_distance = np.maximum(np.sqrt(px * px + py * py) + 1.1 * grain - size_here, endo)
        muscle_distance = np.where(size_here > 1.0, muscle_distance, np.float32(50.0))
        _blend(view, muscle, _cover(muscle_distance, 1.4 * pixel))

    target = labels[box]
    right_label = (right_ventricle < 0) & (epi >= 0)
    for plane in right_label:  # one piece per slice, and none when it is tiny
        pieces, _ = label(plane)
        sizes = np.bincount(pieces.ravel())[1:]
        if sizes.size:
            plane &= pieces == (1 + sizes.argmax() if sizes.max() * pixel**2 >= 45.0 else -1)
    target[right_label] = LABELS["RV"]
    target[epi < 0] = LABELS["MYO"]
    target[endo < 0] = LABELS["LV"]
    return image, labels


def _draw_coil(rng: np.random.Generator, anatomy: _Anatomy) -> FloatArray:
    """Smooth receive sensitivity of shape ``(1, W, H)``: brighter towards the anterior coil, otherwise random."""
    _, width, height = anatomy.shape
    u = np.linspace(-1, 1, width, dtype=np.float32)[:, None]
    v = np.linspace(-1, 1, height, dtype=np.float32)[None, :]
    terms = rng.normal(0.0, [0.2, 0.25, 0.15, 0.15, 0.15])
    field = terms[0] * u + terms[1] * v + terms[2] * u * v + terms[3] * u * u + terms[4] * v * v
    field = field - _uniform(rng, (0.0, 0.35)) * u - _uniform(rng, (0.0, 0.2)) * v
    return np.exp(field).astype(np.float32)[None]


def _acquire(
    rng: np.random.Generator, signal: FloatArray, coil: FloatArray, blur: float, noise: float, gain: float
) -> NDArray[np.int16]:
    """
    Turn a signal into a magnitude image.

    Args:
        rng: random generator of the noise.
        signal: shape ``(D, W, H)``, blood 1.
        coil: receive sensitivity, shape ``(1, W, H)``.
        blur: standard deviation of the in-plane point spread in voxels.
        noise: standard deviation of the noise of each complex channel, relative to blood.
        gain: image value of blood.

    Returns:
        Image of shape ``(D, W, H)`` with Rician noise.
    """
    signal = signal * coil
    for axis in (1, 2):
        signal = gaussian_filter1d(signal, blur, axis=axis, truncate=3.0)
    real = signal + noise * rng.standard_normal(signal.shape, dtype=np.float32)
    imaginary = noise * rng.standard_normal(signal.shape, dtype=np.float32)
    return np.rint(gain * np.sqrt(real**2 + imaginary**2)).astype(np.int16)


def synthesize_subject(seed: int, group: str = "NOR") -> SyntheticSubject:
    """
    Make one synthetic subject. The result depends on the arguments only.

    Args:
        seed: non-negative seed.
        group: diagnosis group, one of :data:`GROUPS`.

    Returns:
        The subject with the images and label maps of both phases, each of shape ``(W, H, D)``.

    Raises:
        ValueError: when ``group`` is unknown or ``seed`` is negative.
    """
    if group not in GROUPS:
        raise ValueError(f"group must be one of {GROUPS}, got {group!r}.")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}.")
    source = np.random.SeedSequence([seed, GROUPS.index(group)])
    for_anatomy, for_thorax, for_heart, for_acquisition, for_info = source.spawn(5)
    anatomy = _draw_anatomy(np.random.default_rng(for_anatomy), group)
    thorax = _render_thorax(np.random.default_rng(for_thorax), anatomy)

    rng = np.random.default_rng(for_acquisition)
    coil = _draw_coil(rng, anatomy)
    blur, noise, gain = _uniform(rng, (0.5, 0.9)), _uniform(rng, (0.02, 0.055)), _uniform(rng, (90, 320))
    images: dict[str, NDArray[np.int16]] = {}
    labels: dict[str, NDArray[np.uint8]] = {}
    for phase in PHASES:
        signal, target = _render_heart(np.random.default_rng(for_heart), anatomy, phase, thorax)
        image = _acquire(rng, signal, coil, blur, noise, gain)
        images[phase] = np.ascontiguousarray(image.transpose(1, 2, 0))
        labels[phase] = np.ascontiguousarray(target.transpose(1, 2, 0))

    rng = np.random.default_rng(for_info)
    num_frames = int(rng.integers(20, 36))
    height = float(np.clip(rng.normal(171, 9), 145, 200))
    return SyntheticSubject(
        images=images,
        labels=labels,
        spacing=anatomy.spacing,
        frames={"ED": 1, "ES": round(num_frames * float(rng.uniform(0.32, 0.44)))},
        group=group,
        num_frames=num_frames,
        height=round(height, 1),
        weight=round(float(np.clip(rng.normal(25.5, 4.0), 17, 40)) * (height / 100) ** 2, 1),
    )


def _write_atomically(path: Path, content: nib.Nifti1Image | str) -> None:
    """Write ``content`` to a temporary name beside ``path``, then move it there."""
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    try:
        if isinstance(content, str):
            temporary.write_text(content, encoding="utf-8")
        else:
            nib.save(content, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _to_nifti(array: NDArray[np.int16] | NDArray[np.uint8], spacing: tuple[float, float, float]) -> nib.Nifti1Image:
    """Wrap an array of shape ``(W, H, D)``; its first two axes point to the left and back, as in ACDC."""
    affine = np.diag([-spacing[0], -spacing[1], spacing[2], 1.0])
    image = nib.Nifti1Image(array, affine, dtype=array.dtype)
    image.set_qform(affine, code="scanner")
    image.set_sform(affine, code="scanner")
    image.header.set_xyzt_units(xyz="mm")
    return image


def _subject_folder(root: Path, index: int) -> Path:
    return root / f"patient{index + 1:03d}"


def _subject_is_complete(folder: Path) -> bool:
    """Whether ``folder`` holds ``Info.cfg``, which is written last, and the four volumes it announces."""
    info = folder / "Info.cfg"
    if not info.is_file():
        return False
    frames = dict(re.findall(r"^(ED|ES): (\d+)$", info.read_text(encoding="utf-8"), flags=re.MULTILINE))
    names = [f"{folder.name}_frame{int(frames[phase]):02d}" for phase in PHASES if phase in frames]
    return len(names) == len(PHASES) and all(
        (folder / f"{name}{suffix}.nii.gz").is_file() for name in names for suffix in ("", "_gt")
    )


def _write_subject(folder: Path, subject: SyntheticSubject) -> None:
    """Write the volumes and then ``Info.cfg`` of one subject."""
    folder.mkdir(parents=True, exist_ok=True)
    for phase in PHASES:
        stem = f"{folder.name}_frame{subject.frames[phase]:02d}"
        _write_atomically(folder / f"{stem}.nii.gz", _to_nifti(subject.images[phase], subject.spacing))
        _write_atomically(folder / f"{stem}_gt.nii.gz", _to_nifti(subject.labels[phase], subject.spacing))
    lines = {
        "ED": subject.frames["ED"],
        "ES": subject.frames["ES"],
        "Group": subject.group,
        "Height": subject.height,
        "NbFrame": subject.num_frames,
        "Weight": subject.weight,
    }
    _write_atomically(folder / "Info.cfg", "".join(f"{key}: {value}\n" for key, value in lines.items()))


def _remove_subject(folder: Path) -> None:
    """Delete the files that this module writes for a subject, and the folder when nothing else is in it."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.is_file() and _SUBJECT_FILE.fullmatch(path.name):
            path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()


def _read_marker(root: Path) -> tuple[dict[str, int], bool] | None:
    """Read version, seed and number of subjects of the data set in ``root`` and whether it was finished."""
    for name, complete in ((_PARTIAL_MARKER_NAME, False), (MARKER_NAME, True)):
        path = root / name
        if not path.is_file():
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["generator"] == _GENERATOR_NAME:
                return {key: int(content[key]) for key in ("version", "seed", "num_subjects")}, complete
        except (ValueError, KeyError, TypeError):
            pass
        raise ValueError(f"{path} was not written by {_GENERATOR_NAME}: choose another folder or move that file away.")
    return None


def _write_marker(path: Path, parameters: dict[str, int]) -> None:
    _write_atomically(path, json.dumps({"generator": _GENERATOR_NAME, **parameters}, indent=2) + "\n")


def write_synthetic_acdc(root: str | Path, num_subjects: int = 40, seed: int = 0, progress: bool = True) -> Path:
    """
    Write a synthetic data set in the layout of the ACDC challenge.

    Subject ``i`` depends on ``(seed, i)`` only, and the diagnosis groups take turns; a larger data set therefore
    begins with the subjects of a smaller one. Each subject gets a folder::

        patient001/Info.cfg
        patient001/patient001_frame01.nii.gz      (ED image, int16)
        patient001/patient001_frame01_gt.nii.gz   (ED label map, uint8)
        patient001/patient001_frame08.nii.gz      (ES, the frame number varies)
        patient001/patient001_frame08_gt.nii.gz

    The marker file ``phantom.json`` is written last. A finished data set of the same parameters is left as it is, an
    unfinished or smaller one is completed. A data set that this function wrote with another seed, with another
    generator version or with more subjects is replaced. Files are moved into place only when they are whole.

    Args:
        root: folder of the data set; made when missing.
        num_subjects: number of subjects, at least 1.
        seed: non-negative seed of the data set.
        progress: whether to show a progress bar on stderr.

    Returns:
        The folder.

    Raises:
        ValueError: when an argument is out of range, or when ``root`` is not a folder or holds patients that this
            function did not write; nothing is changed then.
    """
    root = Path(root)
    if num_subjects < 1:
        raise ValueError(f"num_subjects must be at least 1, got {num_subjects}.")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}.")
    if root.exists() and not root.is_dir():
        raise ValueError(f"{root} is a file: choose a folder for the synthetic data set.")
    wanted = {"version": GENERATOR_VERSION, "seed": int(seed), "num_subjects": int(num_subjects)}
    found = _read_marker(root)
    known = found[0]["num_subjects"] if found else 0
    own = {_subject_folder(root, i).name for i in range(known)}
    foreign = sorted(path.name for path in root.glob("patient*") if path.name not in own)
    if foreign:
        raise ValueError(
            f"{root} holds patients that the synthetic data generator did not write ({', '.join(foreign[:3])}"
            f"{', ...' if len(foreign) > 3 else ''}): choose an empty or new folder for the synthetic data set."
        )

    pending = [i for i in range(num_subjects) if not _subject_is_complete(_subject_folder(root, i))]
    if found == (wanted, True) and not pending:
        return root
    root.mkdir(parents=True, exist_ok=True)
    if found:
        # Until it is finished the folder carries the other marker, which keeps claiming the old subjects.
        _write_marker(root / _PARTIAL_MARKER_NAME, found[0])
        (root / MARKER_NAME).unlink(missing_ok=True)
        same = all(found[0][key] == wanted[key] for key in ("version", "seed"))
        for i in range(num_subjects if same else 0, known):
            _remove_subject(_subject_folder(root, i))
        if not same:
            pending = list(range(num_subjects))
    _write_marker(root / _PARTIAL_MARKER_NAME, wanted)
    for i in tqdm(pending, desc="synthetic hearts", unit="subject", disable=not progress):
        subject_seed = int(np.random.SeedSequence([seed, i]).generate_state(1, np.uint64)[0])
        _write_subject(_subject_folder(root, i), synthesize_subject(subject_seed, GROUPS[i % len(GROUPS)]))
    _write_marker(root / MARKER_NAME, wanted)
    (root / _PARTIAL_MARKER_NAME).unlink(missing_ok=True)
    return root
