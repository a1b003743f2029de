"""NIfTI files whose headers are not trusted, and label maps that keep the geometry of their image exactly."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from dcl_monai.utils import DataError
from dcl_monai.utils.files import replace_atomic

__all__ = ["MAX_VOXELS", "check_inside", "open_image", "save_like", "voxel_ml"]

MAX_VOXELS = 2**28
"""Largest image that is taken, as it is stored or on the network's grid: 1 GiB of float32."""
DEFLATE_RATIO = 1032
"""No gzip file becomes more than this many times larger."""
CHUNK = 2**20
MAX_OFFSET = 2**24
"""Most bytes that may lie before the voxels, where headers keep notes."""


def check_inside(path: Path, folder: Path) -> None:
    """Refuse a file that leads out of its folder, by a link or by ``..``."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{path}: leads out of {folder} to {path.resolve()}. Copy the file there, or remove the link.")


def open_image(path: Path, pixdim: Sequence[float]) -> nib.Nifti1Image:
    """
    Open a 3D or 4D image without reading its voxels, after a look at all that its header promises.

    Args:
        path: ``.nii`` or ``.nii.gz``.
        pixdim: voxel size in mm of the network's grid, -1 where it stays as it is.

    Raises:
        DataError: when the file is no such image, is shorter than its header says, or would fill the memory.
    """
    try:
        if not path.is_file():  # a pipe would never end
            raise ValueError("no regular file")
        if not voxel_offset(path) <= MAX_OFFSET:
            raise ValueError(f"{voxel_offset(path):.4g} bytes between header and voxels")
        image: Any = nib.load(path)
        shape, dtype = image.shape, image.get_data_dtype()
        spacing = tuple(float(size) for size in image.header.get_zooms()[:3])
        unit = image.header.get_xyzt_units()[0]
    except Exception as error:  # nibabel raises whatever it likes
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataError(f"{path}: cannot be read as NIfTI ({reason}). Replace the file.") from error
    if len(shape) not in (3, 4) or min(shape) < 1:
        raise DataError(f"{path}: has shape {shape}, but a volume (H, W, D) or a cine (H, W, D, T) is needed.")
    if dtype.kind not in "iuf":
        raise DataError(f"{path}: holds values of type {dtype}, but one number per voxel is needed. Convert the file.")
    if unit not in ("mm", "unknown"):
        raise DataError(f"{path}: its header gives sizes in {unit}. Convert them to mm.")
    if not all(math.isfinite(size) and size > 0 for size in spacing):
        raise DataError(f"{path}: its header gives a voxel size of {spacing} mm. Correct the header.")
    extent = [n * size for n, size in zip(shape, spacing, strict=False)]
    grid = [length / p if p > 0 else n for n, length, p in zip(shape, extent, pixdim, strict=False)]
    if max(math.prod(shape), math.prod(grid) * math.prod(shape[3:])) > MAX_VOXELS:
        raise DataError(
            f"{path}: {' x '.join(map(str, shape))} voxels, {' x '.join(f'{length:.4g}' for length in extent)} mm, are "
            f"more than the {MAX_VOXELS} that are taken, here or on the network's grid. Fix the header, or split the "
            "file."
        )
    if min(grid) < 1:
        raise DataError(f"{path}: is only {extent} mm large. Correct the voxel size in the header.")
    needed = int(image.dataobj.offset) + math.prod(shape) * dtype.itemsize
    if not holds(path, needed):
        raise DataError(
            f"{path}: is damaged, or shorter than its header says (shape {shape}, {needed} bytes). Copy the file again."
        )
    return image


def voxel_offset(path: Path) -> float:
    """Where the voxels begin, by the header alone: nibabel reads all that lies before them, packed or not."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        head = file.read(nib.Nifti2Header.sizeof_hdr)
    sizes = [int.from_bytes(head[:4], order) for order in ("little", "big")]
    kind = nib.Nifti2Header if nib.Nifti2Header.sizeof_hdr in sizes else nib.Nifti1Header
    return float(kind(head[: kind.sizeof_hdr], check=False)["vox_offset"])


def holds(path: Path, needed: int) -> bool:
    """Whether a file has at least so many bytes; a compressed one is unpacked bit by bit, checksum and all."""
    size = path.stat().st_size
    if path.suffix != ".gz":
        return size >= needed
    if size * DEFLATE_RATIO < needed:
        return False
    try:
        with gzip.open(path) as file:
            while needed > -CHUNK and (chunk := file.read(CHUNK)):  # a little further, to meet the checksum at the end
                needed -= len(chunk)
    except (EOFError, OSError, zlib.error):
        return False
    return needed <= 0


def voxel_ml(image: nib.Nifti1Image) -> float:
    """Volume of a voxel in ml, by the header's ``pixdim``: the spacing that MONAI goes by."""
    return float(np.prod(np.asarray(image.header.get_zooms()[:3], dtype=float))) / 1000


def save_like(source: nib.Nifti1Image, array: np.ndarray, path: Path, description: str) -> None:
    """
    Write an array with the header of an image: the same affines and their codes, voxel size and units.

    Args:
        source: the image.
        array: as large as the image, or with one more axis.
        path: ``.nii`` or ``.nii.gz``, written in one step; the same input gives the same bytes.
        description: note for the header, up to 79 letters.
    """
    header = source.header.copy()
    header.extensions.clear()
    header.set_data_dtype(array.dtype)
    header.set_slope_inter(1, 0)
    header["cal_min"] = header["cal_max"] = 0
    header["descrip"] = description[:79].encode()
    content = type(source)(array, source.affine, header).to_bytes()
    if path.suffix == ".gz":
        content = gzip.compress(content, compresslevel=4, mtime=0)

    def write(temporary: Path) -> None:
        temporary.write_bytes(content)

    replace_atomic(path, write)
