"""One synthetic subject."""

from __future__ import annotations

import numpy as np

from ..acquisition import Scanner, acquire, draw_scanner
from ..draws import FloatArray, smooth_field, uniform
from ..volume import SyntheticVolume
from .anatomy import Anatomy, draw_anatomy
from .fields import dot
from .heart import label_heart, paint_heart
from .heart_shape import shape_heart
from .thorax import render_thorax


def synthesize_whole_heart(seed: int) -> SyntheticVolume:
    """Image one synthetic subject, which depends on the seed only; the axes point to the left, back and up."""
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}.")
    source = np.random.SeedSequence(seed)
    for_anatomy, for_shape, for_thorax, for_acquisition = map(np.random.default_rng, source.spawn(4))
    anatomy = draw_anatomy(for_anatomy)

    def noise(correlation: float) -> FloatArray:
        """Smooth noise with a correlation in mm."""
        in_plane, _, through_plane = anatomy.spacing
        return smooth_field(
            for_shape, anatomy.shape, (correlation / through_plane, correlation / in_plane, correlation / in_plane)
        )

    voxels = _body_coordinates(anatomy)
    flow, grain = noise(9.0), noise(3.0)
    body = voxels + np.stack([2.5 * noise(30.0) for _ in range(3)])
    warped = voxels + np.stack([3.0 * noise(26.0) + 1.2 * noise(11.0) for _ in range(3)])
    turned = np.stack([dot(axis / anatomy.scale, warped) for axis in anatomy.pose.T])
    heart = shape_heart(anatomy, turned.astype(np.float32))
    signal = render_thorax(for_thorax, anatomy, body, flow, grain)
    paint_heart(signal, anatomy, heart, flow, grain)
    image = acquire(for_acquisition, signal, _draw_scanner(for_acquisition, anatomy), axes=(0, 1, 2))
    return SyntheticVolume.of(image, label_heart(heart), anatomy.spacing)


def _body_coordinates(anatomy: Anatomy) -> FloatArray:
    """Coordinates ``(3, D, W, H)`` of the voxels: to the left, back and up."""
    depth, width, height = anatomy.shape
    axes = [
        (np.arange(size, dtype=np.float32) - (size - 1) / 2) * step + middle
        for size, step, middle in zip((width, height, depth), anatomy.spacing, anatomy.centre, strict=True)
    ]
    x, y, z = np.meshgrid(*axes, indexing="ij")
    return np.stack([axis.transpose(2, 0, 1) for axis in (x, y, z)]).astype(np.float32)


def _draw_scanner(rng: np.random.Generator, anatomy: Anatomy) -> Scanner:
    """Scanner whose coil lies in front of the chest and loses sensitivity towards one end of it."""
    depth, width, height = anatomy.shape
    scanner = draw_scanner(rng, height, width, blur=(0.4, 0.7), noise=(0.03, 0.07), gain=(100, 300))
    along = np.exp(uniform(rng, (-0.3, 0.3)) * np.linspace(-1, 1, depth)).astype(np.float32)
    return scanner._replace(coil=scanner.coil.swapaxes(1, 2) * along[:, None, None])
