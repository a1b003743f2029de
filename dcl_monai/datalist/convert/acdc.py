"""ACDC: ``patientNNN/patientNNN_frameFF[_gt].nii.gz`` and ``Info.cfg``, original or reduced."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from dcl_monai.utils import DataError

from .files import Note, existing_folder, log

ACDC_CLASSES = ("background", "RV", "MYO", "LV")
"""Class names in the order of ACDC's label values 0 to 3."""


def acdc_items(root: str | Path) -> list[dict[str, str]]:
    """
    List the end-diastolic and end-systolic volumes of an ACDC folder.

    Both the original release (4D files and further ``Info.cfg`` fields are ignored) and reduced copies are read.

    Args:
        root: folder with one ``patientNNN`` folder per patient.

    Returns:
        one item per volume, sorted, with ``image``, ``label``, ``subject``, ``phase`` (ED or ES) and ``group``.

    Raises:
        DataError: when the folder, an ``Info.cfg``, one of its entries or a file is missing.
    """
    root = Path(root)
    if not root.is_dir():
        raise DataError(
            f"{root}: no such folder. Set --dataset_dir to the folder that holds patient001, patient002, ..."
        )
    patients = sorted(path for path in root.iterdir() if path.is_dir() and re.fullmatch(r"patient\d+", path.name))
    if not patients:
        raise DataError(f"{root}: no patientNNN folder in it. Give ACDC's folder of training patients (--dataset_dir).")
    items = []
    for folder in patients:
        info = read_info(folder / "Info.cfg")
        for phase in ("ED", "ES"):
            if not info.get(phase, "").isdigit():
                raise DataError(
                    f"{folder / 'Info.cfg'}: no line '{phase}: <frame number>'; add it or remove the patient."
                )
            stem = f"{folder.name}_frame{int(info[phase]):02d}"
            files = {"image": folder / f"{stem}.nii.gz", "label": folder / f"{stem}_gt.nii.gz"}
            for path in files.values():
                if not path.is_file():
                    raise DataError(f"{path}: no such file, though Info.cfg names frame {info[phase]} as {phase}.")
            items.append(
                {name: str(path) for name, path in files.items()}
                | {"subject": folder.name, "phase": phase, "group": info.get("Group", "")}
            )
    return items


def read_info(path: Path) -> dict[str, str]:
    """Read the ``key: value`` lines of an ``Info.cfg``."""
    if not path.is_file():
        raise DataError(f"{path}: no such file; every patient folder of ACDC has one.")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def acdc_document(root: str | Path) -> dict[str, Any]:
    """
    Describe an ACDC folder as a datalist, see :mod:`dcl_monai.datalist.schema`.

    Args:
        root: folder with one ``patientNNN`` folder per patient.
    """
    root = Path(root).resolve()
    items = [
        {key: os.path.relpath(value, root) if key in ("image", "label") else value for key, value in item.items()}
        for item in acdc_items(root)
    ]
    return {
        "classes": list(ACDC_CLASSES),
        "unions": {"whole heart": list(ACDC_CLASSES[1:])},
        "split": [60, 20, 20],
        "datasets": {"ACDC": {"folder": str(root), "values": dict(enumerate(ACDC_CLASSES)), "training": items}},
    }


def convert_acdc(root: str | Path, note: Note = log) -> dict[str, Any]:
    """
    Describe the training patients of ACDC, split 60/20/20 as in the paper.

    In the original release they lie in ``training``; reduced copies have but their folders.
    """
    root = existing_folder(root, "patient001, patient002, ...")
    if not any(root.glob("patient[0-9]*/")) and (root / "training").is_dir():
        root = root / "training"
        note(f"The patients in {root} are used; those of other folders, like `testing`, are left out.")
    return acdc_document(root)
