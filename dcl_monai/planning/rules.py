"""nnU-Net v2's rules: from sizes and spacings to a voxel size, a patch, and the shape of a U-Net.

From: Isensee et al., nnU-Net: a self-configuring method for deep learning-based biomedical image segmentation, Nature
Methods 18, 2021, as in ``ExperimentPlanner`` and ``get_pool_and_conv_props`` of its version 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ANISOTROPY = 3.0
"""From this ratio on, an axis is a coarse one."""
SMALLEST = 4
"""Smallest edge of the feature maps at the bottom."""
FIRST_FEATURES = 32
MOST_FEATURES = {2: 512, 3: 320}
SMALL_FEATURES = 16, 96
"""First and most features of a small network, for CPUs."""
LARGEST_PATCH = {2: 2048**2, 3: 256**3}
"""Voxels of the patch that the search starts from."""


@dataclass(frozen=True)
class Topology:
    """The shape of a U-Net."""

    patch_size: tuple[int, ...]  # a multiple of the divisor
    strides: tuple[tuple[int, ...], ...]  # of every stage, per axis; the first is 1
    kernels: tuple[tuple[int, ...], ...]  # sizes of the convolutions of every stage, per axis

    @property
    def divisor(self) -> tuple[int, ...]:
        """What the size of a patch must be a multiple of, per axis."""
        return tuple(int(n) for n in np.prod(self.strides, axis=0))


def is_anisotropic(spacing: Sequence[float], shape: Sequence[float]) -> bool:
    """Whether the coarsest axis has much larger voxels than the others, and much fewer."""
    worst = int(np.argmax(spacing))
    others = [axis for axis in range(len(spacing)) if axis != worst]
    return bool(
        spacing[worst] > ANISOTROPY * max(spacing[axis] for axis in others)
        and shape[worst] * ANISOTROPY < min(shape[axis] for axis in others)
    )


def target_spacing(spacings: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """
    The voxel size that all images, of these spacings and shapes (n, 3), are brought to: the median, and on a very
    coarse axis the 10th percentile, so that few images lose slices; but never finer than the other axes.
    """
    target = np.median(spacings, axis=0)
    if is_anisotropic(target, np.median(shapes, axis=0)):
        worst = int(np.argmax(target))
        others = np.delete(target, worst).max()
        target[worst] = max(np.percentile(spacings[:, worst], 10), others)
    return target


def initial_patch(spacing: Sequence[float], median_shape: Sequence[float]) -> list[int]:
    """A patch that is larger than what can be used, as long in mm along every axis, and no larger than the images."""
    inverse = 1 / np.asarray(spacing)
    dims = len(inverse)
    scale = (LARGEST_PATCH[dims] / inverse.prod()) ** (1 / dims)
    return [int(min(round(edge), size)) for edge, size in zip(inverse * scale, median_shape, strict=True)]


def pooling(spacing: Sequence[float], patch_size: Sequence[int]) -> Topology:
    """
    Halve a patch until it is small, the finest axes first, so that voxels become cubes on the way down.

    An axis is halved while it has at least 8 voxels and its voxels are less than twice as long as the shortest ones;
    convolutions do not reach along it before that is so. The patch becomes the next multiple of what this needs.
    """
    dims = len(spacing)
    size, voxel = [float(n) for n in patch_size], [float(length) for length in spacing]
    strides, kernels, kernel = [(1,) * dims], [], [1] * dims
    while True:
        axes = [axis for axis in range(dims) if size[axis] >= 2 * SMALLEST]
        shortest = min((voxel[axis] for axis in axes), default=0.0)
        axes = [axis for axis in axes if voxel[axis] / shortest < 2]
        if not axes or (len(axes) == 1 and size[axes[0]] < 3 * SMALLEST):
            break
        kernel = [3 if voxel[axis] / min(voxel) < 2 else kernel[axis] for axis in range(dims)]
        kernels.append(tuple(kernel))
        strides.append(tuple(2 if axis in axes else 1 for axis in range(dims)))
        for axis in axes:
            voxel[axis], size[axis] = 2 * voxel[axis], np.ceil(size[axis] / 2)
    kernels.append((3,) * dims)  # the bottom
    divisor = np.prod(strides, axis=0)
    padded = tuple(int(-(-n // d) * d) for n, d in zip(patch_size, divisor, strict=True))
    return Topology(padded, tuple(strides), tuple(kernels))


def shrink(spacing: Sequence[float], topology: Topology, median_shape: Sequence[float]) -> Topology:
    """The next smaller patch: shorter along the axis that covers most of the images."""
    patch = list(topology.patch_size)
    axis = int(np.argsort([n / size for n, size in zip(patch, median_shape, strict=True)])[-1])
    # a smaller patch may be halved less often, and then needs a smaller step
    smaller = [n - topology.divisor[k] if k == axis else n for k, n in enumerate(patch)]
    patch[axis] -= pooling(spacing, smaller).divisor[axis]
    return pooling(spacing, patch)


def coarsen(spacing: np.ndarray, extent: np.ndarray, voxels: int) -> np.ndarray:
    """A coarser voxel size, by which an image of that extent has so many voxels at most; the finest axes lose first."""
    low, high = 0.0, float(extent.max())
    if np.prod(extent / spacing) <= voxels:
        return spacing
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if np.prod(extent / np.maximum(spacing, middle)) <= voxels else (middle, high)
    return np.maximum(spacing, round(high, 3))


def features(stages: int, dims: int, small: bool = False) -> list[int]:
    """Feature maps of every stage."""
    first, most = SMALL_FEATURES if small else (FIRST_FEATURES, MOST_FEATURES[dims])
    return [min(most, first * 2**stage) for stage in range(stages)]
