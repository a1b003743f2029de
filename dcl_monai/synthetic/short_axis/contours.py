"""Outlines given as a radius per slice and angle."""

from __future__ import annotations

import numpy as np

from ..draws import FloatArray

_ANGLES = 720

THETA = np.linspace(-np.pi, np.pi, _ANGLES, endpoint=False, dtype=np.float32)
"""The angles at which an outline is sampled."""


def contour(harmonics: FloatArray, twist: FloatArray) -> FloatArray:
    """Sum of ``harmonics`` ``(n, 3)`` over :data:`THETA`, turned by ``twist`` ``(D,)``; returns ``(D, angles)``."""
    theta = THETA[None] - twist[:, None]
    total = np.zeros_like(theta)
    for order, amplitude, phase in harmonics:
        total += amplitude * np.cos(order * theta + phase)
    return total


def away(centre: FloatArray) -> FloatArray:
    """Signed angle (-pi to pi) of :data:`THETA` from the angles ``centre`` ``(D,)``; returns ``(D, angles)``."""
    return np.angle(np.exp(1j * (THETA[None] - centre[:, None]))).astype(np.float32)


def bump(centre: FloatArray, width: float) -> FloatArray:
    """Smooth bump of height 1 around the angles ``centre`` ``(D,)``; returns ``(D, angles)``."""
    return np.exp(-((away(centre) / width) ** 2))


def lookup(table: FloatArray, theta: FloatArray) -> FloatArray:
    """Read ``table`` ``(D, angles)`` at the angles ``theta`` ``(D, ...)``."""
    scale = np.float32(_ANGLES / (2 * np.pi))
    index = ((theta + np.float32(np.pi)) * scale + np.float32(0.5)).astype(np.intp) % _ANGLES
    index += (np.arange(table.shape[0]) * _ANGLES).reshape(-1, *([1] * (theta.ndim - 1)))
    return table.ravel()[index]


def across(x: FloatArray, y: FloatArray, angle: FloatArray) -> FloatArray:
    """Signed distance of ``(D, W, H)`` points from the line through the origin with direction ``angle`` ``(D,)``."""
    return y * np.cos(angle)[:, None, None] - x * np.sin(angle)[:, None, None]


def taper(level: FloatArray) -> FloatArray:
    """Relative radius on the long axis: 1 near the base (``level`` 0), 0 from the apex (``level`` 1) on."""
    u = np.clip((level - 0.1) / 0.9, 0.0, 1.0)
    return (1.0 - u**2.4) ** 0.55
