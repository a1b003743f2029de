"""DICOM files as labels: which regions an RTSTRUCT or SEG holds, by their names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from monai.utils import optional_import

from dcl_monai.utils import DataError
from dcl_monai.utils.errors import in_a_line

pydicom, has_pydicom = optional_import("pydicom")

RTSTRUCT = ("1.2.840.10008.5.1.4.1.1.481.3",)
SEG = ("1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7")
"""Segmentation, and Label Map Segmentation."""


def is_dicom_file(path: str | Path) -> bool:
    """Whether a path is a DICOM file, by its first bytes; a folder is none."""
    try:
        with open(path, "rb") as file:
            file.seek(128)
            return file.read(4) == b"DICM"
    except OSError:
        return False


def read_header(path: str | Path, pixels: bool = False) -> Any:
    """Read an RTSTRUCT or SEG, of the latter the voxels too if ``pixels`` says so; refuse other DICOM files."""
    if not has_pydicom:
        raise DataError(f"{path}: DICOM labels need further packages: pip install dcl-monai[dicom].")
    try:
        data = pydicom.dcmread(path, stop_before_pixels=not pixels)
        kind = str(data.SOPClassUID)
    except Exception as error:  # pydicom raises whatever it likes
        raise DataError(f"{path}: cannot be read as DICOM ({in_a_line(error)}). Export the file again.") from error
    if kind not in (*RTSTRUCT, *SEG):
        name = getattr(data, "Modality", "?")
        raise DataError(
            f"{path}: is a DICOM file of modality {name}, but a label is RTSTRUCT or SEG. Correct `labels`."
        )
    return data


def label_file(path: str) -> str | None:
    """The RTSTRUCT or SEG that a label is: a DICOM file, or a folder with a single one; ``None`` for other labels."""
    if os.path.isdir(path):
        files = [file for file in (os.path.join(path, name) for name in os.listdir(path)) if is_dicom_file(file)]
        return files[0] if len(files) == 1 else None
    return path if is_dicom_file(path) else None


def region_names(path: str | Path) -> list[str]:
    """Names of the regions of an RTSTRUCT or SEG, each once; a region that is empty was looked for and is absent."""
    data = read_header(path)
    entries, key = (
        (data.get("StructureSetROISequence", ()), "ROIName")
        if data.SOPClassUID in RTSTRUCT
        else (data.get("SegmentSequence", ()), "SegmentLabel")
    )
    names = [str(entry.get(key, "")).strip() for entry in entries]
    twice = next((name for name in names if names.count(name) > 1 or not name), None)
    if twice is not None:
        raise DataError(f"{path}: has several regions named {twice!r}, or one without a name. Rename them in the file.")
    return names
