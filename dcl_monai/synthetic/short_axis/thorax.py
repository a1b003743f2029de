"""Everything but the heart: chest wall, lungs, abdominal organs and vessels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..draws import FloatArray, Range, harmonics, smooth_noise, uniform
from ..painting import Ellipsoid, Grid, blend, cover, paint_ellipsoids
from .anatomy import Anatomy
from .contours import THETA, contour, lookup, taper

_BODY_CENTRE = (42.0, 18.0)  # the point behind the heart around which the body's outline is drawn


class _Scene(NamedTuple):
    """The image under way with what all organs need."""

    image: FloatArray  # (D, W, H) signal, painted in place
    grid: Grid  # follows the heart, with a warp that gives every outline an irregular shape
    rho: FloatArray  # (D, W, H) polar coordinates around the body's centre, warped less
    theta: FloatArray  # (D, W, H)
    level: FloatArray  # (D,) position on the long axis, 0 base, 1 apex
    texture: FloatArray  # (D, W, H) coarse noise
    fine: FloatArray  # (D, W, H) fine noise
    muscle: float  # signals relative to blood
    lung: float
    liver: float
    fat: float


def render_thorax(rng: np.random.Generator, anatomy: Anatomy) -> FloatArray:
    """Paint the thorax without the heart; returns the signal (blood 1), ``(D, W, H)``."""
    scene = _draw_scene(rng, anatomy)
    inside = _paint_chest_wall(rng, anatomy, scene)
    _paint_lungs(rng, anatomy, scene, inside)
    _paint_abdomen(rng, anatomy, scene, inside)
    _paint_great_vessels(rng, anatomy, scene, inside)
    return scene.image * (1.0 + 0.05 * scene.fine + 0.04 * scene.texture)


def _draw_scene(rng: np.random.Generator, anatomy: Anatomy) -> _Scene:
    """Draw signals, coordinates and noise; the image is empty."""
    _, width, height = anatomy.shape
    pixel = anatomy.spacing[0]
    muscle, lung, liver = uniform(rng, (0.18, 0.34)), uniform(rng, (0.05, 0.14)), uniform(rng, (0.28, 0.6))
    origin = anatomy.centre - 0.4 * (anatomy.centre - anatomy.centre.mean(0))
    x = (np.arange(width, dtype=np.float32)[None, :, None] - (width - 1) / 2) * pixel - origin[:, :1, None]
    y = (np.arange(height, dtype=np.float32)[None, None, :] - (height - 1) / 2) * pixel - origin[:, 1:, None]
    warp_x = 3.5 * smooth_noise(rng, anatomy.shape, 11.0 / pixel, 0.75)
    warp_y = 3.5 * smooth_noise(rng, anatomy.shape, 11.0 / pixel, 0.75)
    dx, dy = x + 0.3 * warp_x - _BODY_CENTRE[0], y + 0.3 * warp_y - _BODY_CENTRE[1]
    return _Scene(
        image=np.full(anatomy.shape, 0.01, dtype=np.float32),
        grid=Grid(x + warp_x, y + warp_y, anatomy.z, pixel),
        rho=np.sqrt(dx * dx + dy * dy),
        theta=np.arctan2(dy, dx),
        level=np.clip(anatomy.z / anatomy.length, 0.0, 1.2),
        texture=smooth_noise(rng, anatomy.shape, 5.0 / pixel, 0.4),
        fine=smooth_noise(rng, anatomy.shape, 1.8 / pixel),
        muscle=muscle,
        lung=lung,
        liver=liver,
        fat=anatomy.fat,
    )


def _paint_chest_wall(rng: np.random.Generator, anatomy: Anatomy, scene: _Scene) -> FloatArray:
    """Paint arm, fat, ribs, muscle and the empty lungs; returns the opacity ``(D, W, H)`` of the inside."""
    image, texture, fine, theta = scene.image, scene.texture, scene.fine, scene.theta
    pixel, muscle, fat, level = scene.grid.pixel, scene.muscle, scene.fat, scene.level

    # Body outline as radius per angle; it narrows towards the apex.
    fat_layer = uniform(rng, (5, 18))
    anterior = abs(np.cos(anatomy.septum)) * (anatomy.epi_radius + 0.8 * anatomy.rv_width) + uniform(rng, (6, 18))
    superior, posterior = uniform(rng, (70, 98)), uniform(rng, (75, 115))
    cos, sin = np.cos(THETA), np.sin(THETA)
    side = np.where(cos < 0, anterior + _BODY_CENTRE[0], posterior)
    end = np.where(sin < 0, superior + _BODY_CENTRE[1], 260.0)
    inner = 1.0 / (np.abs(cos / side) ** 2.4 + np.abs(sin / end) ** 2.4) ** (1 / 2.4)
    narrowing = 1.0 - level[:, None] * (uniform(rng, (0.08, 0.24)) * np.clip(0.3 * cos - sin, 0.0, 1.0))[None]
    waves = 1.0 + contour(harmonics(rng, (2, 3, 4, 5), 0.03), 0.3 * level)
    inner = (inner[None] * narrowing * waves).astype(np.float32)
    fat_table = fat_layer * (1.0 + 0.8 * contour(harmonics(rng, (1, 2, 3), 0.5), level)) + 3.0 + 10.0 * level[:, None]
    wall_layer = uniform(rng, (8, 14))
    outer = (inner + wall_layer + np.maximum(fat_table, 3.0)).astype(np.float32)

    inner_distance = scene.rho - lookup(inner, theta)
    outer_distance = scene.rho - lookup(outer, theta)
    ribs = 0.5 + 0.5 * np.cos(rng.integers(10, 17) * THETA + rng.uniform(-np.pi, np.pi))
    ribs = lookup((np.repeat(ribs[None], len(level), 0) ** 3).astype(np.float32), theta)
    layer = np.exp(-(((inner_distance - 0.5 * wall_layer) / (0.3 * wall_layer)) ** 2))

    if rng.random() < 0.5:  # an arm beside the chest
        arm_x, arm_y = posterior + _BODY_CENTRE[0] + uniform(rng, (25, 60)), uniform(rng, (-90, 20))
        radius = uniform(rng, (26, 36))
        arm = [
            Ellipsoid(arm_x, arm_y, 0.0, part * radius, 1.1 * part * radius, 250, 0.3, value)
            for part, value in ((1.0, 0.9 * fat), (0.75, muscle), (0.3, 0.6 * fat))
        ]
        paint_ellipsoids(image, scene.grid, arm)
    stripes = 1.0 + 0.12 * np.cos(outer_distance * 0.7 + 2.0 * texture) * (rng.random() < 0.5)
    blend(image, fat * stripes * (1.0 + 0.08 * texture), cover(outer_distance, 1.5 * pixel))
    chest = muscle * (1.0 + 0.15 * texture) + layer * ribs * (0.9 * fat - muscle)
    blend(image, chest, cover(inner_distance - wall_layer - 1.5 * fine, 1.5 * pixel))
    inside = cover(inner_distance - 0.8 * fine, 1.3 * pixel)
    blend(image, scene.lung * (1.0 + 0.3 * fine), inside)
    return inside


def _paint_lungs(rng: np.random.Generator, anatomy: Anatomy, scene: _Scene, inside: FloatArray) -> None:
    """Paint the vessels of the lungs and the fat between the heart and the sternum."""
    vessels = []
    for _ in range(int(rng.integers(45, 90))):
        size = 1.2 + rng.exponential(0.9)
        position = (rng.uniform(-70, 130), rng.uniform(-95, 60), rng.uniform(-10, anatomy.length))
        radii = (size * rng.uniform(1, 2.2), size, rng.uniform(4, 14))
        vessels.append(Ellipsoid(*position, *radii, rng.uniform(0, np.pi), rng.uniform(0.3, 1.0)))
    paint_ellipsoids(scene.image, scene.grid, vessels, inside)
    retrosternal = scene.grid.x + uniform(rng, (12, 34)) - 0.35 * scene.grid.y + 5.0 * scene.texture
    blend(scene.image, scene.fat * (0.92 + 0.1 * scene.texture), inside * cover(retrosternal, 3.0))


def _paint_abdomen(rng: np.random.Generator, anatomy: Anatomy, scene: _Scene, inside: FloatArray) -> None:
    """Paint what lies below the diaphragm: fat and bowel, liver, stomach, spleen, spine."""
    image, muscle, liver, fat = scene.image, scene.muscle, scene.liver, scene.fat
    x, y, _, pixel = scene.grid
    dome = anatomy.epi_radius * (0.45 + 0.55 * taper(scene.level / 1.15)) + uniform(rng, (1, 10))
    dome = dome[:, None, None] + ((x - uniform(rng, (-10, 40))) / uniform(rng, (17, 26))) ** 2
    below = cover(dome - y, 1.5 * pixel) * inside
    blend(image, muscle, cover(dome - y - 2.5, 2.0 * pixel) * inside)
    folds = smooth_noise(rng, anatomy.shape, uniform(rng, (5, 10)) / pixel, 0.5)
    loops = cover(uniform(rng, (-0.2, 1.0)) - folds - 0.3 * scene.texture, 0.8)
    bowel = 0.9 * liver + (0.9 * fat - 0.9 * liver) * loops
    blend(image, bowel * (1.0 + 0.1 * scene.fine), below)

    def organ(x: Range, y: Range, z: Range, a: Range, b: Range, c: Range, angle: float, value: float) -> Ellipsoid:
        position = (uniform(rng, x), _bottom(anatomy) + uniform(rng, y), uniform(rng, z))
        radii = (uniform(rng, a), uniform(rng, b), uniform(rng, c))
        return Ellipsoid(*position, *radii, rng.normal(angle, 0.25), value)

    spleen, spine = uniform(rng, (0.4, 0.75)), uniform(rng, (0.3, 0.6))
    stomach = organ((35, 75), (22, 40), (10, 70), (24, 40), (18, 30), (35, 80), 0.3, 0.9 * muscle + 0.1)
    content = float(rng.choice([rng.uniform(0.3, 0.55), rng.uniform(0.85, 1.15), 0.08]))  # food, fluid or gas
    organs = [
        organ((-60, -15), (32, 52), (-10, 40), (58, 88), (34, 50), (60, 110), 0.0, liver),
        stomach,
        stomach._replace(a=stomach.a - 3.0, b=stomach.b - 3.0, c=stomach.c - 2.0, value=content),
        organ((85, 125), (10, 40), (-10, 30), (14, 22), (26, 42), (40, 80), 0.0, spleen),
        organ((60, 95), (75, 100), (0, 40), (20, 23), (17, 20), (140, 160), 0.0, spine),
    ]
    for _ in range(int(rng.integers(3, 8))):  # hepatic vessels, bowel loops and other blood-like spots
        turn, value = rng.uniform(0, np.pi), rng.uniform(0.8, 1.1)
        organs.append(organ((-80, 110), (12, 80), (-10, anatomy.length), (3, 9), (2.5, 6), (12, 40), turn, value))
    paint_ellipsoids(image, scene.grid, organs, below)


def _paint_great_vessels(rng: np.random.Generator, anatomy: Anatomy, scene: _Scene, inside: FloatArray) -> None:
    """Paint descending aorta (behind the heart) and vena cava with their walls, as bright as the blood pools."""
    angle = np.radians(uniform(rng, (15, 75)))
    aorta_radius = uniform(rng, (9, 13))
    reach = anatomy.epi_radius + aorta_radius + uniform(rng, (4, 22))
    cava = (-uniform(rng, (5, 40)), _bottom(anatomy) + uniform(rng, (8, 22)), -15.0)
    vessels = []
    for value, extra in ((0.8 * scene.muscle + 0.05, 1.8), (1.0, 0.0)):
        radius = aorta_radius + extra
        vessels += [
            Ellipsoid(reach * np.cos(angle), reach * np.sin(angle), -20.0, radius, 0.95 * radius, 160, 0.0, value),
            Ellipsoid(*cava, 11 + 0.6 * extra, 8 + 0.6 * extra, 55, 0.4, value),
        ]
    paint_ellipsoids(scene.image, scene.grid, vessels, inside)


def _bottom(anatomy: Anatomy) -> float:
    """Return the level ``y`` from which the places of the organs below the heart are measured."""
    return anatomy.epi_radius + 6.0
