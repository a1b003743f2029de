"""A synthetic volume, and volumes as NIfTI files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import nibabel as nib
import numpy as np
from numpy.typing import NDArray

from dcl_monai.utils.files import replace_atomic


class SyntheticVolume(NamedTuple):
    """One image with its label map."""

    image: NDArray[np.int16]  # (W, H, D)
    labels: NDArray[np.uint8]  # (W, H, D)
    spacing: tuple[float, float, float]  # (W, H, D), in mm

    @classmethod
    def of(cls, image: NDArray, labels: NDArray, spacing: tuple[float, float, float]) -> SyntheticVolume:
        """Turn image and labels of shape ``(D, W, H)``."""
        image, labels = (np.ascontiguousarray(array.transpose(1, 2, 0)) for array in (image, labels))
        return cls(image, labels, spacing)


def write_nifti(path: Path, array: NDArray[np.integer], spacing: tuple[float, float, float]) -> None:
    """Write an array of shape ``(W, H, D)`` in one step; its first two axes point to the left and back."""
    affine = np.diag([-spacing[0], -spacing[1], spacing[2], 1.0])
    image = nib.Nifti1Image(array, affine, dtype=array.dtype)
    image.set_qform(affine, code="scanner")
    image.set_sform(affine, code="scanner")
    image.header.set_xyzt_units(xyz="mm")

    def write(temporary: Path) -> None:  # without name and time in it, so that the same voxels give the same file
        with temporary.open("wb") as file, gzip.GzipFile("", "wb", 1, file, mtime=0) as stream:
            stream.write(image.to_bytes())

    replace_atomic(path, write)
