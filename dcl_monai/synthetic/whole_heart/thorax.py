"""Everything but the heart: lungs, mediastinum, abdomen, chest wall, spine, descending aorta."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..draws import FloatArray, harmonics, uniform
from ..painting import Ellipsoid, Grid, blend, cover, paint_ellipsoids
from .anatomy import Anatomy
from .fields import ellipsoid, smooth_path, tube, vector


class _Scene(NamedTuple):
    """The image under way with what all organs need."""

    image: FloatArray  # (D, W, H) signal, painted in place
    points: FloatArray  # (3, D, W, H)
    grid: Grid  # the same without the warp of the levels
    flow: FloatArray  # (D, W, H) coarse noise
    grain: FloatArray  # (D, W, H) fine noise
    edge: float  # width of the edges
    back: float  # place of the left atrium's back, from where the spine's is counted


def render_thorax(
    rng: np.random.Generator, anatomy: Anatomy, points: FloatArray, flow: FloatArray, grain: FloatArray
) -> FloatArray:
    """
    Paint the thorax without the heart; returns the signal (blood 1), ``(D, W, H)``.

    ``points`` are the voxels in the body's coordinates, ``(3, D, W, H)``; ``flow`` is coarse noise and ``grain`` fine
    noise, ``(D, W, H)``.
    """
    x, y, z = points
    scene = _Scene(
        image=anatomy.lung * (1.0 + 0.3 * grain),
        points=points,
        grid=Grid(x, y, z.mean((1, 2)), anatomy.spacing[0]),
        flow=flow,
        grain=grain,
        edge=1.2 * anatomy.spacing[0],
        back=49 * anatomy.scale + uniform(rng, (2, 6)),
    )
    _paint_lungs(rng, scene)
    _paint_mediastinum(rng, anatomy, scene)
    _paint_abdomen(rng, anatomy, scene)
    _paint_chest_wall(rng, anatomy, scene)
    _paint_spine(rng, anatomy, scene)
    return scene.image


def _paint_lungs(rng: np.random.Generator, scene: _Scene) -> None:
    """Paint the vessels of the lungs."""
    twigs = []
    for _ in range(int(rng.integers(60, 110))):
        size = 1.2 + rng.exponential(0.9)
        radii = (size * rng.uniform(1, 3), size, rng.uniform(3, 14))
        position = (rng.uniform(-85, 90), rng.uniform(-50, 85), rng.uniform(-50, 65))
        twigs.append(Ellipsoid(*position, *radii, rng.uniform(0, np.pi), rng.uniform(0.3, 1.0)))
    paint_ellipsoids(scene.image, scene.grid, twigs)


def _paint_mediastinum(rng: np.random.Generator, anatomy: Anatomy, scene: _Scene) -> None:
    """Paint the fat around the great vessels and in front of the spine, and the oesophagus in it."""
    column = ellipsoid(scene.points, vector(8, scene.back + 6, 30), vector(24, 20, 150))
    top = ellipsoid(scene.points, vector(0, -5, 85), vector(42, 55, 50))
    tissue = np.minimum(column, top) + 3.0 * scene.flow
    blend(scene.image, anatomy.fat * (0.9 + 0.1 * scene.grain), cover(tissue, scene.edge))
    position = (uniform(rng, (-2, 10)), scene.back + uniform(rng, (4, 7)), 0.0)
    paint_ellipsoids(scene.image, scene.grid, [Ellipsoid(*position, 9, 5, 300, 0.2, anatomy.muscle)])


def _paint_abdomen(rng: np.random.Generator, anatomy: Anatomy, scene: _Scene) -> None:
    """Paint what lies below the diaphragm: the liver, highest on the right, its vessels, the stomach on the left."""
    x, y, z = scene.points.astype(np.float64)  # exponentials in single precision differ between processors
    dome = -46 * anatomy.scale - uniform(rng, (0, 5)) - 0.22 * (y + 10) - 0.12 * np.maximum(x, 0)
    dome = dome + uniform(rng, (8, 20)) * np.exp(-(((x + 55) / 40) ** 2) - ((y - 5) / 50) ** 2)
    below = cover(z - dome, scene.edge)
    blend(scene.image, anatomy.muscle, cover(z - dome - 2.5, scene.edge))
    blend(scene.image, anatomy.liver * (1.0 + 0.06 * scene.grain + 0.05 * scene.flow), below)
    position = (uniform(rng, (45, 70)), uniform(rng, (0, 30)), -95 * anatomy.scale)
    content = float(rng.choice([0.08, 0.35, 0.9]))  # gas, food or fluid
    organs = [
        Ellipsoid(*position, 42, 36, 42, 0.3, anatomy.muscle),
        Ellipsoid(*position, 38, 32, 38, 0.3, content),
    ]
    for _ in range(int(rng.integers(4, 9))):
        vessel = (rng.uniform(-75, 15), rng.uniform(-50, 50), rng.uniform(-75, -45))
        organs.append(Ellipsoid(*vessel, rng.uniform(3, 12), 3, rng.uniform(4, 14), rng.uniform(0, np.pi), 0.9))
    paint_ellipsoids(scene.image, scene.grid, organs, below)


def _paint_chest_wall(rng: np.random.Generator, anatomy: Anatomy, scene: _Scene) -> None:
    """Paint muscle with ribs and the sternum in front of the heart, fat and air beyond."""
    x, y, z = scene.points.astype(np.float64)  # so do cosines
    front = -66 * anatomy.scale - uniform(rng, (2, 9))
    bend = 0.0019 * x**2
    for order, amplitude, phase in harmonics(rng, (1, 2), 2.0):
        bend += amplitude * np.cos(order * z / 40 + phase)
    ahead, layer = y - front - bend, uniform(rng, (8, 12))
    ribs = np.clip(np.cos(z / uniform(rng, (3.6, 4.6)) + 0.06 * np.abs(x) + uniform(rng, (0, 6))), 0, 1) ** 2
    ribs = ribs * cover(np.abs(ahead + 0.5 * layer) - 0.3 * layer, 3.0)
    tissue = anatomy.muscle * (1.0 + 0.1 * scene.flow) + ribs * (anatomy.bone - anatomy.muscle)
    blend(scene.image, tissue, cover(ahead, scene.edge))
    _paint_bone(scene, anatomy, ellipsoid(scene.points, vector(-4, front - 0.5 * layer, 20), vector(18, 6, 70)))
    blend(scene.image, anatomy.fat * (1.0 + 0.06 * scene.flow), cover(ahead + layer + scene.flow, scene.edge))
    blend(scene.image, 0.01, cover(ahead + layer + uniform(rng, (6, 20)), scene.edge))


def _paint_spine(rng: np.random.Generator, anatomy: Anatomy, scene: _Scene) -> None:
    """Paint the muscles of the back, vertebrae with discs between them, and the descending aorta at their left side."""
    x, y, z = scene.points
    middle = scene.back + uniform(rng, (24, 29))
    muscles = np.maximum(0.25 * np.abs(x) + middle - 12 - y, 14 - np.abs(x))
    blend(scene.image, anatomy.muscle * (1.0 + 0.1 * scene.flow), cover(muscles, scene.edge))
    period = uniform(rng, (22, 28))
    disc = cover(np.abs((z / period + uniform(rng, (0, 1))) % 1.0 - 0.5) * period - 2.5, scene.edge)
    _paint_bone(scene, anatomy, np.sqrt(x * x + (y - middle) ** 2) - 18 - 1.5 * disc)
    blend(scene.image, 0.6, disc * cover(np.sqrt(x * x + (y - middle) ** 2) - 18, scene.edge))

    course = np.array([(26, middle - 12, level) for level in (-90, -30, 20, 50, 80)], dtype=np.float32)
    course[:, :2] += rng.normal(0.0, 2.0, size=(5, 2))
    course[0, 0] -= 10  # it moves to the front of the spine on its way down
    radius = uniform(rng, (9.5, 13))
    path = smooth_path(course, 2)
    aorta = tube(scene.points, path, np.full(len(path), radius))
    blend(scene.image, anatomy.muscle, cover(aorta - 1.5, scene.edge))
    blend(scene.image, 1.0 + 0.06 * scene.flow, cover(aorta, scene.edge))


def _paint_bone(scene: _Scene, anatomy: Anatomy, distance: FloatArray) -> None:
    """Paint marrow inside a dark cortex."""
    blend(scene.image, 0.1, cover(distance - 1.2, scene.edge))
    blend(scene.image, anatomy.bone * (1.0 + 0.1 * scene.grain), cover(distance, scene.edge))
