"""From signal to magnitude image: receive coil, point spread, noise, gain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from .draws import FloatArray, Range, uniform


class Scanner(NamedTuple):
    """Settings of an acquisition, the same for all phases."""

    coil: FloatArray  # (1, W, H) or (D, W, H) receive sensitivity
    blur: float  # standard deviation of the point spread in voxels
    noise: float  # standard deviation of the noise of each complex channel, relative to blood
    gain: float  # image value of blood


def draw_scanner(
    rng: np.random.Generator, width: int, height: int, *, blur: Range, noise: Range, gain: Range
) -> Scanner:
    """Draw the settings for images of ``width`` times ``height`` voxels from the ranges of each setting."""
    return Scanner(
        coil=_draw_coil(rng, width, height),
        blur=uniform(rng, blur),
        noise=uniform(rng, noise),
        gain=uniform(rng, gain),
    )


def acquire(
    rng: np.random.Generator, signal: FloatArray, scanner: Scanner, axes: tuple[int, ...] = (1, 2)
) -> NDArray[np.int16]:
    """
    Turn a signal (blood 1) into a magnitude image with Rician noise, both ``(D, W, H)``.

    The point spread blurs along ``axes``, in the plane by default.
    """
    signal = signal * scanner.coil
    for axis in axes:
        signal = gaussian_filter1d(signal, scanner.blur, axis=axis, truncate=3.0)
    real = signal + scanner.noise * rng.standard_normal(signal.shape, dtype=np.float32)
    imaginary = scanner.noise * rng.standard_normal(signal.shape, dtype=np.float32)
    return np.rint(scanner.gain * np.sqrt(real**2 + imaginary**2)).astype(np.int16)


def _draw_coil(rng: np.random.Generator, width: int, height: int) -> FloatArray:
    """Smooth receive sensitivity of shape ``(1, W, H)``: brighter towards the anterior coil, otherwise random."""
    u = np.linspace(-1, 1, width, dtype=np.float32)[:, None]
    v = np.linspace(-1, 1, height, dtype=np.float32)[None, :]
    terms = rng.normal(0.0, [0.2, 0.25, 0.15, 0.15, 0.15])
    field = terms[0] * u + terms[1] * v + terms[2] * u * v + terms[3] * u * u + terms[4] * v * v
    field = field - uniform(rng, (0.0, 0.35)) * u - uniform(rng, (0.0, 0.2)) * v
    return np.exp(field).astype(np.float32)[None]
