"""Corrected copies of labels whose header is wrong."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, cast

import nibabel as nib
import numpy as np

from dcl_monai.datalist import Datalist, write_datalist
from dcl_monai.datalist.items import Annotation, Item, annotations_of
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.transforms.files import AFFINE_TOLERANCE_MM
from dcl_monai.utils import DataError
from dcl_monai.utils.images import is_nifti
from dcl_monai.utils.tables import write_table

DIRECTION_TOLERANCE = 1e-3
"""Headers whose axes differ by more may belong to images of another orientation."""
LIST, CHANGES = "datalist.json", "changes.csv"


def repair_headers(datalist: Datalist, folder: str | Path) -> tuple[list[list[str]], list[str]]:
    """
    Copy labels that have the shape of their image, but another place in space, with the header of the image.

    Only what is surely an error of the header is repaired: the same axes with another origin, or a header that says
    nothing. No file of the user is changed.

    Args:
        datalist: the datalist.
        folder: new folder for the copies, for ``datalist.json``, which uses them, and for ``changes.csv``.

    Returns:
        label, copy and change of every label repaired; and labels with another header that are left alone.

    Raises:
        DataError: when the folder is not empty.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: is not empty. Give --repair a new folder.")
    changes: list[list[str]] = []
    left: list[str] = []
    copies: dict[tuple[str, str], str] = {}
    result = cast(Datalist, {**datalist, **{split: [dict(item) for item in datalist[split]] for split in SPLITS}})
    for item in (item for split in SPLITS for item in result[split]):
        if "further_labels" in item:
            item["further_labels"] = [other.copy() for other in item["further_labels"]]
        for annotation in annotations_of(item):
            pair = item["image"], annotation["label"]
            if pair not in copies:
                copies[pair] = _copied(item, annotation, folder, len(copies), changes, left)
            annotation["label"] = copies[pair]
    if changes:
        write_table(folder / CHANGES, [["label", "copy", "change"], *changes])
        write_datalist(result, folder / LIST, absolute=True)
    return changes, left


def _copied(
    item: Item, annotation: Annotation, folder: Path, number: int, changes: list[list[str]], left: list[str]
) -> str:
    """Copy a label if its header needs it; return the file to use."""
    name = annotation["label"]
    if not (is_nifti(Path(item["image"])) and is_nifti(Path(name))):
        return name
    try:
        image, label = cast(Any, nib.load(item["image"])), cast(Any, nib.load(name))
        change = _change(image, label)
        if change is None:
            return name
        if not change:
            left.append(name)
            return name
        values = np.asanyarray(label.dataobj)
    except Exception:  # what cannot be read is told by the check itself
        return name
    stem = re.sub(r"[^\w.+-]+", "_", f"{item.get('dataset', 'data')}_{item.get('case', '')}_{number}")
    copy = folder.resolve() / "labels" / f"{stem}.nii.gz"
    os.makedirs(copy.parent, exist_ok=True)
    corrected = nib.Nifti1Image(values, image.affine, label.header)
    corrected.set_sform(image.affine, 1)
    corrected.set_qform(image.affine, 1)
    nib.save(corrected, copy)
    changes.append([os.path.abspath(name), str(copy), change])
    return str(copy)


def _change(image: Any, label: Any) -> str | None:
    """What is to be changed in a label's header: ``None`` for nothing, an empty text for what nobody can know."""
    if image.shape[:3] != label.shape[:3]:
        return None  # the check says so; no header helps
    offset = float(np.abs(image.affine - label.affine).max())
    if offset <= AFFINE_TOLERANCE_MM:
        return None
    if np.array_equal(label.affine, np.eye(4)):
        return "the label's header says nothing; that of the image is taken"
    scale = np.abs(image.affine[:3, :3]).max()
    if np.abs(image.affine[:3, :3] - label.affine[:3, :3]).max() > DIRECTION_TOLERANCE * scale:
        return ""
    moved = ", ".join(f"{value:.4g}" for value in image.affine[:3, 3] - label.affine[:3, 3])
    return f"moved by ({moved}) mm, onto the image"
