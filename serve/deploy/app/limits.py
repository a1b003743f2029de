"""What is looked at before a voxel is read: where a file lies, and what its header promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from errors import DataError

__all__ = ["MAX_VOXELS", "check_inside", "check_size"]

MAX_VOXELS = 2**28
"""Largest image that is taken, as it is stored or on the network's grid: 1 GiB of float32."""


def check_inside(path: Path, folder: Path) -> None:
    """Refuse a file that leads out of its folder by a link."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{path}: leads out of {folder} to {path.resolve()}. Copy the file there, or remove the link.")


def check_size(name: object, shape: Sequence[int], spacing: Sequence[float], pixdim: Sequence[float]) -> None:
    """
    Refuse an image that would fill the memory.

    Args:
        name: file or series, for the message.
        shape: W, H, D and, for a cine, the number of frames.
        spacing: voxel size in mm along W, H, D.
        pixdim: voxel size in mm of the network's grid, -1 where it stays as it is.
    """
    if not all(math.isfinite(size) and size > 0 for size in spacing):
        raise DataError(f"{name}: its header gives a voxel size of {tuple(spacing)} mm. Correct the header.")
    extent = [n * size for n, size in zip(shape, spacing, strict=False)]
    grid = [length / p if p > 0 else n for n, length, p in zip(shape, extent, pixdim, strict=False)]
    if max(math.prod(shape), math.prod(grid) * math.prod(shape[3:])) > MAX_VOXELS:
        raise DataError(
            f"{name}: {' x '.join(map(str, shape))} voxels, {' x '.join(f'{length:.4g}' for length in extent)} mm, are "
            f"more than the {MAX_VOXELS} that are taken, here or on the network's grid. Fix the header, or split the "
            "file."
        )
    if min(grid) < 1:
        raise DataError(f"{name}: is only {extent} mm large. Correct the voxel size in the header.")
