"""Shape, signal and field-of-view parameters of a subject."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from ..draws import FloatArray, uniform


@dataclass(frozen=True)
class Anatomy:
    """Everything that is drawn once per subject; lengths of the heart are in mm before ``scale``."""

    shape: tuple[int, int, int]  # (D, W, H)
    spacing: tuple[float, float, float]  # (W, H, D)
    centre: FloatArray  # (3,) middle of the field of view in the body's coordinates
    pose: FloatArray  # (3, 3) rotation of the heart in the body
    scale: float  # of the heart
    length: float  # of the LV cavity
    lv_radius: float
    wall: float
    rv_width: float  # extent of the RV away from the septum
    la_size: float  # relative to the mean
    ra_size: float
    ao_radius: float
    pa_radius: float
    fat_width: float
    myocardium: float  # signals relative to blood
    muscle: float
    fat: float
    lung: float
    liver: float
    bone: float

    @property
    def epi_radius(self) -> float:
        """Radius of the LV's outer surface at the base."""
        return self.lv_radius + self.wall


def draw_anatomy(rng: np.random.Generator) -> Anatomy:
    """Draw the parameters of one subject."""
    pixel, thickness = round(uniform(rng, (2.1, 2.4)), 3), round(uniform(rng, (2.2, 2.5)), 3)
    width, height = (int(np.clip(round(uniform(rng, (150, 168)) / pixel), 64, 76)) for _ in range(2))
    depth = int(np.clip(round(uniform(rng, (112, 124)) / thickness), 48, 54))
    dilation = uniform(rng, (0.0, 1.0))  # large cavities tend to have thin walls
    return Anatomy(
        shape=(depth, width, height),
        spacing=(pixel, pixel, thickness),
        centre=np.array([7.0, 4.0, 3.0]) + rng.uniform(-1, 1, size=3) * [7, 7, 4],
        pose=Rotation.from_rotvec(np.radians(np.clip(rng.normal(0.0, 8.0, size=3), -18, 18))).as_matrix(),
        scale=uniform(rng, (0.84, 1.0)),
        length=uniform(rng, (66, 80)),
        lv_radius=20.5 + 7 * dilation + uniform(rng, (-1, 1)),
        wall=11.5 - 4 * dilation + uniform(rng, (-1.5, 1.5)),
        rv_width=uniform(rng, (22, 36)),
        la_size=uniform(rng, (0.85, 1.2)),
        ra_size=uniform(rng, (0.85, 1.2)),
        ao_radius=uniform(rng, (11.5, 16)),
        pa_radius=uniform(rng, (10.5, 14)),
        fat_width=uniform(rng, (1.5, 5)),
        myocardium=uniform(rng, (0.35, 0.6)),
        muscle=uniform(rng, (0.25, 0.45)),
        fat=uniform(rng, (0.15, 0.75)),
        lung=uniform(rng, (0.03, 0.1)),
        liver=uniform(rng, (0.3, 0.65)),
        bone=uniform(rng, (0.2, 0.5)),
    )
