"""Look at every file of a datalist before hours of training are lost to a mistake in one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from monai.transforms import LoadImage
from tqdm import tqdm

from dcl_monai.transforms import EncodeCandidates
from dcl_monai.utils import DataError

__all__ = ["check_datalist"]

AFFINE_TOLERANCE_MM = 1e-2


def check_datalist(
    datalist: Mapping[str, Any], splits: Sequence[str] = ("training", "validation", "test"), progress: bool = True
) -> Mapping[str, Any]:
    """
    Read every image and label and raise on the first mistake.

    Args:
        datalist: ``classes`` and splits, see :mod:`dcl_monai.data.datalist`.
        splits: the splits to read.
        progress: whether to show a progress bar.

    Returns:
        the datalist, so that the call can stand in a config where the datalist is meant.

    Raises:
        DataError: when a split is empty, a file cannot be read, image and label differ in shape or affine, a label
            value is outside the class list, or a class is annotated in no training image.
    """
    classes = datalist["classes"]
    for split in splits:
        if not datalist[split]:
            raise DataError(f"the {split} list is empty: add images to it.")
    encode = EncodeCandidates(len(classes))
    # An item may be listed several times, each time showing other classes: its files are read once.
    files = {(item["image"], item["label"]) for split in splits for item in datalist[split]}
    for image, label in tqdm(
        sorted(files), desc="checking data", unit="volume", leave=False, disable=None if progress else True
    ):
        check_pair(image, label, encode)
    shown = {j for item in datalist["training"] for j in item.get("annotated", range(len(classes)))}
    for index, name in enumerate(classes):
        if index not in shown:
            raise DataError(
                f"class {name!r} is annotated in no training image, so nothing can be learned of it: "
                "add images that show it, or take it out of the class list."
            )
    return datalist


def check_pair(image: str, label: str, encode: EncodeCandidates) -> None:
    """Check one image and its label, see :func:`check_datalist`."""
    load = LoadImage(image_only=True)
    loaded = {}
    for path in (image, label):
        try:
            loaded[path] = load(path)
        except Exception as error:
            reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
            raise DataError(
                f"{path}: cannot be read ({reason[0]}). Replace the file or take it off the list."
            ) from error
    pixels, mask = loaded[image], loaded[label]
    if pixels.shape != mask.shape:
        raise DataError(
            f"{label}: shape {tuple(mask.shape)} differs from {tuple(pixels.shape)} of its image {image}. "
            "Resample the label onto the image or correct the pair."
        )
    offset = float(np.abs(np.asarray(pixels.affine) - np.asarray(mask.affine)).max())
    if offset > AFFINE_TOLERANCE_MM:
        raise DataError(
            f"{label}: its affine differs from that of {image} by {offset:.3g}. Resample the label onto the image, or "
            "copy the image's header if only the header is wrong."
        )
    if not np.isfinite(np.asarray(pixels)).all():
        raise DataError(f"{image}: holds values that are not finite (nan or inf). Replace the file.")
    encode(mask)
