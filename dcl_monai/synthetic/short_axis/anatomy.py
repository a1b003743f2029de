"""Shape, signal and field-of-view parameters of a subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..draws import FloatArray, Range, harmonics, uniform
from .sequences import Sequence


class _GroupRanges(NamedTuple):
    """Ranges of the shape parameters that differ between the groups (mm at ED, or ratios); those of a normal heart."""

    endo_radius: Range = (21, 26)  # LV cavity radius at the base
    wall: Range = (7, 9.5)  # mean wall thickness
    systolic_radius: Range = (0.58, 0.7)  # cavity radius at ES relative to ED
    shortening: Range = (0.86, 0.92)  # length of the LV at ES relative to ED
    rv_width: Range = (27, 40)  # largest extent of the RV away from the septum
    rv_systolic: Range = (0.5, 0.72)  # RV extent at ES relative to ED
    hypertrophy: Range = (0, 0.2)  # extra relative thickness of one sector of the wall
    thinning: Range = (0, 0)  # relative loss of thickness in an infarcted sector
    septal_flattening: Range = (0, 0)  # relative inward displacement of the septum


_GROUP_RANGES: dict[str, _GroupRanges] = {
    "NOR": _GroupRanges(),
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
        thinning=(0.35, 0.6),
    ),
    "RV": _GroupRanges(
        endo_radius=(19, 24),
        wall=(6.5, 9),
        systolic_radius=(0.6, 0.74),
        shortening=(0.88, 0.93),
        rv_width=(38, 54),
        rv_systolic=(0.68, 0.88),
        septal_flattening=(0.04, 0.16),
    ),
}


GROUPS = tuple(_GROUP_RANGES)
"""The diagnosis groups of ACDC: normal, dilated, hypertrophic, infarcted, abnormal right ventricle."""


@dataclass(frozen=True)
class Anatomy:
    """Everything that is drawn once per subject and shared by its phases."""

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
    systolic_radius: float  # the next six as in _GroupRanges
    shortening: float
    rv_systolic: float
    hypertrophy: float
    thinning: float
    septal_flattening: float
    hypertrophy_angle: float
    thinning_angle: float
    thinning_level: float
    myocardium: float  # signals relative to blood
    fat: float
    rv_wall: float  # thickness of the RV's free wall
    trabeculae: float  # depth of the trabeculated layer

    @property
    def epi_radius(self) -> float:
        """ED radius of the LV's outer surface at the base."""
        return self.endo_radius + self.wall


def draw_anatomy(rng: np.random.Generator, group: str, sequence: Sequence) -> Anatomy:
    """Draw the shape, signal and field-of-view parameters of one subject of ``group`` for an image by ``sequence``."""
    ranges = _GROUP_RANGES[group]
    scale = float(np.clip(rng.normal(1.0, 0.06), 0.87, 1.14))
    endo_radius = scale * uniform(rng, ranges.endo_radius)
    wall = scale * uniform(rng, ranges.wall)
    rv_width = scale * uniform(rng, ranges.rv_width)
    length = scale * uniform(rng, (74, 92)) + 0.5 * max(endo_radius - 26.0, 0.0)

    pixel = uniform(rng, sequence.pixel)
    thickness = float(rng.choice(list(sequence.thickness), p=list(sequence.thickness.values())))
    depth = int(np.clip(round(0.94 * length / thickness + rng.uniform(-0.6, 0.9)), *sequence.depth))
    z = rng.uniform(*sequence.first_slice) * thickness + thickness * np.arange(depth)
    if z[-1] < 0.8 * length:  # thin slices do not reach the apex: such a stack is centred on the heart
        z += rng.uniform(0.3, 0.7) * (0.9 * length - z[-1])
    width = int(np.clip(round(uniform(rng, sequence.field_of_view) / pixel), *sequence.matrix))
    height = int(np.clip(round(width * uniform(rng, (0.85, 1.25))), *sequence.matrix))

    offset = rng.uniform(-sequence.offset, sequence.offset, size=2)
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
    return Anatomy(
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
        rv_breadth=uniform(rng, (0.95, 1.25)),
        rv_apex=uniform(rng, (0.78, 1.0)),
        rv_base=uniform(rng, (-0.02, 0.1)),
        rv_skew=float(np.radians(rng.normal(0.0, 9.0))),
        rv_harmonics=np.concatenate([harmonics(rng, (3,), 0.1), harmonics(rng, (2, 4, 5, 7), 0.04)]),
        endo_harmonics=np.concatenate([harmonics(rng, (2,), 0.045), harmonics(rng, (3, 4, 5, 7), 0.03)]),
        wall_harmonics=harmonics(rng, (1, 2, 3), 0.07),
        papillary=np.array(papillary, dtype=np.float32),
        fat_harmonics=harmonics(rng, (1, 2, 3, 5, 7), 0.45),
        fat_width=uniform(rng, (2.0, 7.0)),
        systolic_radius=uniform(rng, ranges.systolic_radius),
        shortening=uniform(rng, ranges.shortening),
        rv_systolic=uniform(rng, ranges.rv_systolic),
        hypertrophy=uniform(rng, ranges.hypertrophy),
        thinning=uniform(rng, ranges.thinning),
        septal_flattening=uniform(rng, ranges.septal_flattening),
        hypertrophy_angle=float(septum + rng.normal(0.0, 0.5)),
        thinning_angle=uniform(rng, (-np.pi, np.pi)),
        thinning_level=uniform(rng, (0.4, 0.85)),
        myocardium=uniform(rng, sequence.myocardium),
        fat=uniform(rng, (0.9, 1.35)),
        rv_wall=uniform(rng, (2.0, 3.5)),
        trabeculae=uniform(rng, (1.5, 4.5)),
    )
