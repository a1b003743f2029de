"""ACDC: ``patientNNN/patientNNN_frameFF[_gt].nii.gz`` and ``Info.cfg``, original or reduced."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from dcl_monai.datalist.acdc import acdc_document
from dcl_monai.utils import DataError

from .files import Note, existing_folder

__all__ = ["convert_acdc"]

logger = logging.getLogger(__name__)


def convert_acdc(root: str | Path, note: Note = logger.info) -> dict[str, Any]:
    """
    Describe the training patients of ACDC, split 60/20/20 as in the paper.

    Args:
        root: folder with one ``patientNNN`` folder per patient, or the folder of the original release, in which they
            lie in ``training``.
        note: called when ``training`` is used.

    Raises:
        DataError: when the folder or a file of a patient is missing.
    """
    root = existing_folder(root, "patient001, patient002, ...")
    if not any(root.glob("patient[0-9]*/")):
        root = root / "training"
        if not any(root.glob("patient[0-9]*/")):
            raise DataError(
                f"{root.parent}: no patientNNN folder in it, nor in `training` below it. Give the folder that holds "
                "patient001, patient002, ..."
            )
        note(f"The patients in {root} are used; those of other folders, like `testing`, are left out.")
    return acdc_document(root)
