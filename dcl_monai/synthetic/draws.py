"""Random numbers, harmonics and smooth noise fields."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]  # float32 wherever it is large
Range = tuple[float, float]


def uniform(rng: np.random.Generator, limits: Range) -> float:
    """Draw one number between the limits."""
    return float(rng.uniform(*limits))


def harmonics(rng: np.random.Generator, orders: Iterable[int], amplitude: float) -> FloatArray:
    """Draw ``(n, 3)`` rows of order, amplitude (falling with the order) and phase."""
    rows = [(m, amplitude * rng.normal() * 2.0 / m, rng.uniform(-np.pi, np.pi)) for m in orders]
    return np.array(rows, dtype=np.float32)


def smooth_noise(
    rng: np.random.Generator, shape: tuple[int, int, int], correlation: float, shared: float = 0.0
) -> FloatArray:
    """
    Draw Gaussian noise ``(D, W, H)`` of unit variance that is smooth in the plane.

    ``correlation`` is the standard deviation of the smoothing kernel in voxels, ``shared`` the share (0 to 1) of the
    variance that all slices have in common.
    """
    rows, columns = (_kernel(size, correlation) for size in shape[1:])
    grid = (rows.shape[1], columns.shape[1])
    coarse = np.sqrt(1.0 - shared) * rng.standard_normal((shape[0], *grid), dtype=np.float32)
    if shared > 0:
        coarse += np.sqrt(shared) * rng.standard_normal((1, *grid), dtype=np.float32)
    return (rows @ coarse.astype(np.float32) @ columns.T).astype(np.float32)


def smooth_field(
    rng: np.random.Generator, shape: tuple[int, int, int], correlation: tuple[float, float, float]
) -> FloatArray:
    """
    Draw Gaussian noise ``(D, W, H)`` of unit variance that is smooth along all three axes.

    ``correlation`` is the standard deviation of the smoothing kernel in voxels along each axis.
    """
    kernels = [_kernel(size, width) for size, width in zip(shape, correlation, strict=True)]
    field = rng.standard_normal([kernel.shape[1] for kernel in kernels], dtype=np.float32).astype(np.float64)
    for kernel in kernels:  # each step smoothes the first axis and makes it the last
        field = np.tensordot(field, kernel, axes=(0, 1))
    return field.astype(np.float32)  # rounded once, so that the order of the sums does not show


def _kernel(size: int, correlation: float) -> FloatArray:
    """Weights ``(size, nodes)`` that make smooth noise of unit variance from independent numbers at coarse nodes."""
    nodes = np.arange(-2.0, size / correlation + 3.0) * correlation
    kernel = np.exp(-0.5 * ((np.arange(size)[:, None] - nodes[None]) / correlation) ** 2)
    return (kernel / np.sqrt((kernel**2).sum(1, keepdims=True))).astype(np.float32)
