"""
The one check of an image, before it is used anywhere, and label maps that keep the geometry of their image exactly.

Folder inference, ``check`` and training use it, MONAI Label by the bundle's preprocessing, and the application of MONAI
Deploy by a link to this folder (``serve/deploy/app/utils``): the same files are refused with the same words.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from .errors import DataError, first_line
from .files import replace_atomic

MAX_VOXELS = 2**28
"""Largest image that is taken, as it is stored or on the network's grid: 1 GiB of float32."""
MIN_SPACING, MAX_SPACING, MAX_EXTENT = 0.01, 100.0, 10000.0
"""mm: voxels of a body are neither smaller nor larger, if the header is in mm at all, and no body is larger."""
MAX_VALUE = 1e18
"""The square of a larger value is no float32 any more: mean and spread could not be computed."""
NEARLY = 1e-4
"""An image is nearly constant if all but one voxel in 500 lie within this part of its values."""
DEFLATE_RATIO = 1032
"""No gzip file becomes more than this many times larger."""
CHUNK = 2**20
FLAT = 1e-3
"""Least volume that axes of length 1 span: slices of a scan are never that oblique."""
MAX_OFFSET = 2**24
"""Most bytes that may lie before the voxels, where headers keep notes."""


def is_nifti(path: str | Path) -> bool:
    """Whether a name is that of a NIfTI file; capital letters are taken, too."""
    return str(path).lower().endswith((".nii", ".nii.gz"))


def check_inside(path: Path, folder: Path) -> None:
    """Refuse a file that leads out of its folder, by a link or by ``..``."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(
            f"{path}: leads out of {folder} to {path.resolve()}. Copy the file there, or take the link away."
        )


def open_image(path: Path, pixdim: Sequence[float] = (), dims: Sequence[int] = (3, 4)) -> nib.Nifti1Image:
    """
    Open an image without reading its voxels, after a look at all that its header promises.

    Args:
        path: ``.nii`` or ``.nii.gz``.
        pixdim: voxel size in mm of the network's grid, -1 where it stays as it is; empty if there is no network yet.
        dims: numbers of axes that are taken.

    Raises:
        DataError: when the file is no such image, is damaged or shorter than its header says, has voxels of no size
            that a body has, or would fill the memory.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise ValueError("no regular file")
        if not voxel_offset(path) <= MAX_OFFSET:
            raise ValueError(f"{voxel_offset(path):.4g} bytes between header and voxels")
        image: Any = nib.load(path)
        shape, dtype = image.shape, image.get_data_dtype()
        spacing = tuple(float(size) for size in image.header.get_zooms()[:3])
        unit = image.header.get_xyzt_units()[0]
    except Exception as error:  # nibabel raises whatever it likes
        raise DataError(f"{path}: cannot be read as NIfTI ({first_line(error)}). Replace the file.") from error
    if len(shape) not in dims or min(shape) < 1:
        raise DataError(f"{path}: has shape {shape}, but a volume (H, W, D) or a cine (H, W, D, T) is needed.")
    if dtype.kind not in "iuf":
        raise DataError(f"{path}: holds values of type {dtype}, but one number per voxel is needed. Convert the file.")
    if unit not in ("mm", "unknown"):
        raise DataError(f"{path}: its header gives sizes in {unit}. Convert them to mm.")
    check_size(path, shape, spacing, pixdim)
    check_affine(path, image.affine, min(3, len(shape)))
    needed = int(image.dataobj.offset) + math.prod(shape) * dtype.itemsize
    if not holds(path, needed):
        raise DataError(
            f"{path}: is damaged, or shorter than its header says (shape {shape}, {needed} bytes). Copy the file again."
        )
    return image


def check_size(name: object, shape: Sequence[int], spacing: Sequence[float], pixdim: Sequence[float] = ()) -> None:
    """
    Refuse an image whose voxels are of no size that a body has, or that would fill the memory.

    Args:
        name: file or series, for the message.
        shape: H, W, D and, for a cine, the number of frames.
        spacing: voxel size in mm along H, W, D.
        pixdim: voxel size in mm of the network's grid, -1 where it stays as it is; empty if there is no network yet.
    """
    voxel = " x ".join(f"{size:.4g}" for size in spacing)
    if not all(math.isfinite(size) and size > 0 for size in spacing):
        raise DataError(f"{name}: its header gives a voxel size of {voxel} mm. Correct the header.")
    if min(spacing) < MIN_SPACING or max(spacing) > MAX_SPACING:
        unit, factor = ("metres", "multiply") if min(spacing) < MIN_SPACING else ("micrometres", "divide")
        raise DataError(
            f"{name}: its header gives a voxel size of {voxel} mm. If these are {unit}, {factor} them by 1000; "
            "otherwise correct the header."
        )
    extent = [n * size for n, size in zip(shape, spacing, strict=False)]
    extents = " x ".join(f"{length:.6g}" for length in extent)
    wanted = [*pixdim, *[-1.0] * len(extent)]
    grid = [length / p if p > 0 else n for n, length, p in zip(shape, extent, wanted, strict=False)]
    if max(math.prod(shape), math.prod(grid) * math.prod(shape[3:])) > MAX_VOXELS:
        raise DataError(
            f"{name}: {' x '.join(map(str, shape))} voxels ({extents} mm) exceed the limit of {MAX_VOXELS}, in "
            "the file or on the network's grid. Correct the header, or split the file."
        )
    if max(extent) > MAX_EXTENT:
        raise DataError(f"{name}: measures {extents} mm, more than any body. Correct the voxel size in the header.")
    if min(grid) < 1:
        raise DataError(f"{name}: measures only {extents} mm. Correct the voxel size in the header.")


def check_affine(name: object, affine: np.ndarray, dims: int) -> None:
    """Refuse the affine (4, 4) of an image with so many axes if it is not finite, or if they lie in one plane."""
    axes = affine[:3, :dims]
    lengths = np.linalg.norm(axes, axis=0)
    unit = axes / lengths if np.isfinite(affine).all() and lengths.all() else np.zeros_like(axes)
    if np.linalg.det(unit.T @ unit) < FLAT**2:
        rows = ", ".join(" ".join(f"{value:.4g}" for value in row) for row in affine[:3])
        raise DataError(f"{name}: its header has an invalid affine, {rows}. Correct the header.")


def check_values(name: object, values: np.ndarray) -> None:
    """Refuse a volume of any shape that no network can say anything about; the message calls it ``name``."""
    largest = float(np.abs(values).max(initial=0))  # nan and inf come through
    if not math.isfinite(largest):
        count = int((~np.isfinite(values)).sum())
        raise DataError(f"{name}: holds {count} value(s) that are not finite (nan or inf). Replace the file.")
    if largest > MAX_VALUE:
        raise DataError(f"{name}: holds values up to {largest:.3g}, too large to compute with. Replace the file.")
    low, high = np.percentile(values, (0.1, 99.9))
    if high - low <= NEARLY * max(abs(low), abs(high)):
        raise DataError(
            f"{name}: is nearly constant: all but a few voxels have the value {low:.4g}. Replace or remove the file."
        )


def voxel_offset(path: Path) -> float:
    """Where the voxels begin, by the header alone: nibabel reads all that lies before them, packed or not."""
    with gzip.open(path) if is_packed(path) else path.open("rb") as file:
        head = file.read(nib.Nifti2Header.sizeof_hdr)
    sizes = [int.from_bytes(head[:4], order) for order in ("little", "big")]
    kind = nib.Nifti2Header if nib.Nifti2Header.sizeof_hdr in sizes else nib.Nifti1Header
    return float(kind(head[: kind.sizeof_hdr], check=False)["vox_offset"])


def holds(path: Path, needed: int) -> bool:
    """Whether a file has at least so many bytes; a compressed one is unpacked bit by bit, up to its checksum."""
    size = path.stat().st_size
    if not is_packed(path):
        return size >= needed
    if size * DEFLATE_RATIO < needed:
        return False
    try:
        with gzip.open(path) as file:
            while chunk := file.read(CHUNK):  # to the end, where the checksum is
                needed -= len(chunk)
                if needed < -CHUNK:  # much more than promised, perhaps without an end
                    return False
    except (EOFError, OSError, zlib.error):
        return False
    return needed <= 0


def is_packed(path: Path) -> bool:
    """Whether a file is compressed, by its name."""
    return path.suffix.lower() == ".gz"


def voxel_ml(image: nib.Nifti1Image) -> float:
    """Volume of a voxel in ml, by the header's ``pixdim``: the spacing that MONAI goes by."""
    return float(np.prod(np.asarray(image.header.get_zooms()[:3], dtype=float))) / 1000


def save_like(source: nib.Nifti1Image, array: np.ndarray, path: Path, description: str) -> None:
    """
    Write an array with the header of an image: the same affines and their codes, voxel size and units, all of which
    MONAI's ``SaveImage`` makes anew.

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
    if is_packed(path):
        content = gzip.compress(content, compresslevel=4, mtime=0)
    replace_atomic(path, lambda temporary: temporary.write_bytes(content))
