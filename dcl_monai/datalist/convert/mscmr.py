"""MSCMR: late-enhancement MR ``subjectN_DE.nii.gz`` and manual labels ``subjectN_DE_manual.nii.gz``."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from dcl_monai.utils import DataError

from .files import Note, existing_folder, files_by_subject, paired_datasets

__all__ = ["convert_mscmr"]

logger = logging.getLogger(__name__)

CLASSES = ["background", "RV", "MYO", "LV"]
ORIGINAL = {0: "background", 200: "MYO", 500: "LV", 600: "RV"}
# Copies with small values are assumed to count the original ones in their order.
REDUCED = {0: "background", 1: "MYO", 2: "LV", 3: "RV"}


def convert_mscmr(root: str | Path, unlabelled: bool = False, note: Note = logger.info) -> dict[str, Any]:
    """
    Describe the late-enhancement images of MSCMR, split 25/5/15 as in the paper; other sequences are ignored.

    The label values are the original ones (200 MYO, 500 LV, 600 RV) or reduced ones, which are assumed to follow the
    order of the original ones: 1 MYO, 2 LV, 3 RV. All label files are read to tell which.

    Args:
        root: folder that holds images and labels, at any depth.
        unlabelled: whether images without a manual label are used for training, too.
        note: called with a sentence about what is left out or assumed.

    Raises:
        DataError: when a file is missing, or a label value is of neither numbering or not of that of the others.
    """
    root = existing_folder(root, "subject1_DE.nii.gz, subject1_DE_manual.nii.gz, ...")
    images = files_by_subject(root, r"(?P<subject>subject\d+)_DE\.nii(\.gz)?")
    labels = files_by_subject(root, r"(?P<subject>subject\d+)_DE_manual\.nii(\.gz)?")
    if not images:
        raise DataError(f"{root}: no subjectN_DE.nii.gz below it. Give the folder that holds the images of MSCMR.")
    values = find_numbering(root, labels.values()) if labels else ORIGINAL
    if values is REDUCED:
        note(
            "The reduced label values are assumed to be 1 MYO, 2 LV, 3 RV, in the order of the original 200, 500, 600. "
            "Look at the pictures of `check`, and correct `values` if your copy counts otherwise."
        )
    return {
        "classes": list(CLASSES),
        "unions": {"whole heart": CLASSES[1:]},
        "split": [25, 5, 15],
        "datasets": paired_datasets("MSCMR", root, images, labels, values, unlabelled, note),
    }


def find_numbering(root: Path, labels: Iterable[Path]) -> dict[int, str]:
    """Tell original from reduced label values by those found; refuse a mixture, and everything else."""
    numbering: dict[int, str] | None = None
    witness = ""
    for path in labels:
        for value in read_values(path):
            fitting = next((values for values in (ORIGINAL, REDUCED) if value in values), None)
            if fitting is None:
                raise DataError(
                    f"{path}: label value {value:g} is not one of MSCMR: original are 200, 500, 600, reduced 1, 2, 3. "
                    "Correct the file."
                )
            if value == 0:
                continue
            if numbering is None:
                numbering, witness = fitting, f"{path} holds {value:g}"
            if fitting is not numbering:
                raise DataError(
                    f"{path}: holds label value {value:g}, but {witness}: original and reduced values mix. Bring all "
                    "files to one numbering."
                )
    if numbering is None:
        raise DataError(f"{root}: all labels are empty. Give label files in which something is drawn.")
    return numbering


def read_values(path: Path) -> list[float]:
    """Label values of a NIfTI file, in order."""
    try:
        return np.unique(np.asanyarray(nib.Nifti1Image.from_filename(path).dataobj)).tolist()
    except Exception as error:  # nibabel raises whatever it likes
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path}: cannot be read as NIfTI ({reason}). Fetch or unpack the file again.") from error
