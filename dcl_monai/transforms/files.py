"""Reading image and label files, and what is checked of a label: written once, for the loader and for ``check``."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from monai.data import MetaTensor
from monai.transforms import LoadImage

from dcl_monai.datalist.items import Item
from dcl_monai.utils import DataError

from .check import check_file
from .dicom import check_stack
from .images import as_volume, is_picture, read_picture

AFFINE_TOLERANCE_MM = 1e-2
SHOWN_VALUES = 10
"""So many label values without a meaning are named."""


class LabelMistake(NamedTuple):
    """A label that cannot be used."""

    kind: str  # what is wrong with it, in a few words
    message: str  # one line that names the file, the value and the remedy


def read_channels(item: Item) -> list[MetaTensor]:
    """Read the image of an item: the file of each channel as (C, H, W, D) on its own grid, see :func:`read_image`."""
    pixel_size = item.get("pixel_size")
    return [read_image(path, pixel_size=pixel_size) for path in (item["image"], *item.get("further_images", ()))]


def read_image(
    path: str,
    dtype: type = np.float32,
    remedy: str = "Replace the file or remove it from the list.",
    pixel_size: Sequence[float] | None = None,
    label: bool = False,
) -> MetaTensor:
    """
    Read an image file, or a folder with one DICOM series, as (C, H, W, D); a picture is one slice.

    ``pixel_size`` is that of a picture, ``remedy`` is what the error says if the file cannot be read.
    """
    check_file(path, dims=(2, 3, 4, 5))  # before anything is allocated
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loaded: MetaTensor = (
                read_picture(path, dtype, pixel_size, label) if is_picture(path) else as_volume(_reader(dtype)(path))
            )
        if not loaded.numel():
            raise ValueError(f"no voxels, its shape is {tuple(loaded.shape[1:])}")
        if any("more than one DICOM series" in str(warning.message) for warning in caught):
            raise ValueError("more than one DICOM series in the folder; keep the one that is meant")
    except Exception as error:  # the readers raise whatever they like
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip().rstrip(".")
        raise DataError(f"{path}: cannot be read ({reason}). {remedy}") from error
    if Path(path).is_dir():
        check_stack(path)
    return loaded


def read_label(path: str, remedy: str = "Replace the file or remove it from the list.") -> MetaTensor:
    """Read a label file as (1, H, W, D), see :func:`read_image`."""
    # float32 holds no label value above 2**24, of which some atlases have many
    return read_image(path, np.float64, remedy, label=True)


@cache
def _reader(dtype: type) -> LoadImage:
    return LoadImage(image_only=True, ensure_channel_first=True, dtype=dtype)


def file_of(tensor: torch.Tensor, default: str) -> str:
    """The file that an image or a label was read from, for messages; ``default`` if it does not say."""
    return str(tensor.meta.get("filename_or_obj", default)) if isinstance(tensor, MetaTensor) else default


def geometry_mistakes(name: str, label: torch.Tensor, image: torch.Tensor) -> Iterator[LabelMistake]:
    """Check that a label (1, H, W[, D]) has a value for every voxel of its image (C, H, W[, D]), at the same place."""
    if len(label) > 1 or label.ndim > 4:
        channels = label.numel() // int(np.prod(label.shape[1:4]))
        yield LabelMistake(
            "Several frames or channels",
            f"{name}: has {channels} channels, but a label has one value per voxel. Save it as one label map.",
        )
        return
    its_image = f"its image {file_of(image, '')}".rstrip()
    if image.shape[1:] != label.shape[1:]:
        yield LabelMistake(
            "Image and label differ in geometry",
            f"{name}: its shape {tuple(label.shape[1:])} differs from {tuple(image.shape[1:])} of {its_image}. "
            "Resample the label onto the image or correct the pair.",
        )
    elif isinstance(image, MetaTensor) and isinstance(label, MetaTensor) and not is_picture(name):
        offset = float((image.affine - label.affine).abs().max())
        if offset > AFFINE_TOLERANCE_MM:
            yield LabelMistake(
                "Image and label differ in geometry",
                f"{name}: its affine differs from that of {its_image} by up to {offset:.3g} mm. Resample the label "
                "onto the image; if only its header is wrong, `python -m dcl_monai check LIST --repair OUT` writes a "
                "good copy.",
            )


def value_mistakes(
    name: str, values: np.ndarray, counts: np.ndarray, known: Collection[int], is_mask: bool = False
) -> Iterator[LabelMistake]:
    """
    Check that the values of a label, which is a mask of one structure or not, are whole numbers with a known meaning.

    ``values`` has each of them once, and ``counts`` the number of its voxels.
    """
    odd = values[~np.isfinite(values) | (values != np.rint(values))]
    if odd.size:
        yield LabelMistake(
            "Label that holds no whole numbers",
            f"{name}: holds values like {odd[0]:g}, but label values must be whole numbers; is this an image or a "
            "probability map? Correct the list.",
        )
        return
    unknown = {int(value): int(count) for value, count in zip(values, counts, strict=True) if int(value) not in known}
    if unknown:
        shown = ", ".join(map(str, list(unknown)[:SHOWN_VALUES])) + (", ..." if len(unknown) > SHOWN_VALUES else "")
        remedy = (
            "a mask of one structure holds 0 and 1, or 0 and 255. Correct the file, or describe it by `labels` and "
            "`values` instead of `masks`."
            if is_mask
            else f"known values are {sorted(known)}. Correct the file, or say in `values` of the data set what they "
            "stand for."
        )
        yield LabelMistake(
            "Label value without a meaning",
            f"{name}: label value(s) [{shown}] in {sum(unknown.values())} voxel(s) have no meaning; {remedy}",
        )
