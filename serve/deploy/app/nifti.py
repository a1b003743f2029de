"""
NIfTI files in and out.

The SDK's own loader drops the affine, and the bundle operator then keeps only the first slice for a 2D network. Here an
image comes with everything that MONAI's transforms ask for, read by MONAI's own reader.
The checks are those of dcl_monai.inferers.geometry, which is not installed here; tests/serve holds the two together.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from errors import DataError
from limits import check_size
from monai.deploy.core import Fragment, Image, Operator, OperatorSpec
from monai.transforms import LoadImage

__all__ = ["NiftiLoaderOperator", "NiftiWriterOperator", "check_nifti", "save_label"]

DEFLATE_RATIO = 1032
"""No gzip file becomes more than this many times larger."""
CHUNK = 2**20
MAX_OFFSET = 2**24
"""Most bytes that may lie before the voxels, where headers keep notes."""


def check_nifti(path: Path, pixdim: Sequence[float]) -> int:
    """
    Compare what the header promises with what the file holds, without reading a voxel.

    Args:
        path: ``.nii`` or ``.nii.gz``.
        pixdim: voxel size in mm of the network's grid, -1 where it stays as it is.

    Returns:
        number of frames.

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
    check_size(path, shape, spacing, pixdim)
    needed = int(image.dataobj.offset) + math.prod(shape) * dtype.itemsize
    if not holds(path, needed):
        raise DataError(
            f"{path}: is damaged, or shorter than its header says (shape {shape}, {needed} bytes). Copy the file again."
        )
    return shape[3] if len(shape) == 4 else 1


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


def save_label(image: nib.Nifti1Image, path: Path) -> None:
    """Write a label map in one step; the same input gives the same bytes."""
    content = image.to_bytes()
    if path.suffix == ".gz":
        content = gzip.compress(content, compresslevel=4, mtime=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


class NiftiLoaderOperator(Operator):
    """
    Read a NIfTI file, and emit one frame of it each time it is called.

    Named output:
        image: an Image (W, H, D) with the metadata of MONAI's reader.

    Args:
        path: the file, after :func:`check_nifti`.
    """

    def __init__(self, fragment: Fragment, *args: Any, path: Path, **kwargs: Any) -> None:
        self.path = path
        self.frame = 0
        self.image: Any = None
        super().__init__(fragment, *args, **kwargs)

    def setup(self, spec: OperatorSpec) -> None:
        spec.output("image")

    def compute(self, op_input: Any, op_output: Any, context: Any) -> None:
        if self.image is None:
            self.image = LoadImage(image_only=True)(str(self.path))
            if not self.image.isfinite().all():
                raise DataError(f"{self.path}: holds values that are not finite (nan or inf). Replace the file.")
        meta = dict(self.image.meta)
        array = self.image.numpy()
        if array.ndim == 4:
            array = array[..., self.frame]
        self.frame += 1
        # "no_channel": the bundle's EnsureChannelFirstd must not take slices for channels
        meta |= {
            "spatial_shape": np.asarray(array.shape),
            "spacing": nib.affines.voxel_sizes(np.asarray(meta["affine"])),
            "original_channel_dim": "no_channel",
            "space": "RAS",
        }
        op_output.emit(Image(array, metadata=meta), "image")


class NiftiWriterOperator(Operator):
    """
    Write label maps as NIfTI: with the very header of the image where that was NIfTI, and by its affine otherwise.

    Named input:
        pred: an Image (D, H, W) of class indices, for each frame.

    Args:
        path: the file to write, when all frames have come.
        frames: number of frames to wait for.
        source: the NIfTI image, if there is one.
    """

    def __init__(
        self, fragment: Fragment, *args: Any, path: Path, frames: int = 1, source: Path | None = None, **kwargs: Any
    ) -> None:
        self.path = path
        self.frames = frames
        self.source = source
        self.seen: list[np.ndarray] = []
        super().__init__(fragment, *args, **kwargs)

    def setup(self, spec: OperatorSpec) -> None:
        spec.input("pred")

    def compute(self, op_input: Any, op_output: Any, context: Any) -> None:
        pred = op_input.receive("pred")
        self.seen.append(np.swapaxes(pred.asnumpy(), 0, 2).astype(np.uint8))
        if len(self.seen) < self.frames:
            return
        if self.source is None:
            label = nib.Nifti1Image(self.seen[0], np.asarray(pred.metadata()["original_affine"], dtype=float))
            label.header.set_xyzt_units("mm")
            label.set_qform(label.affine, code=1)
            label.set_sform(label.affine, code=1)
        else:
            label = like(nib.load(self.source), self.seen)
        save_label(label, self.path)


def like(source: Any, frames: list[np.ndarray]) -> nib.Nifti1Image:
    """A label map with the header of an image: the same affines and their codes, voxel size and units."""
    array = frames[0] if source.ndim == 3 else np.stack(frames, axis=3)
    header = source.header.copy()
    header.extensions.clear()
    header.set_data_dtype(array.dtype)
    header.set_slope_inter(1, 0)
    header["cal_min"] = header["cal_max"] = 0
    header["descrip"] = b"dcl-monai segmentation"
    return type(source)(array, source.affine, header)
