"""SNOMED CT codes of the structures, for DICOM SEG."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from errors import DataError
from monai.deploy.operators.dicom_seg_writer_operator import SegmentDescription
from pydicom.sr.codedict import codes
from pydicom.sr.coding import Code

__all__ = ["STRUCTURES", "read_codes", "segment_descriptions"]

STRUCTURES: dict[str, Code] = {
    "LV": codes.SCT.LeftVentricle,
    "MYO": Code(codes.SCT.StructureOfMyocardiumOfLeftVentricle.value, "SCT", "Myocardium of left ventricle"),
    "RV": codes.SCT.RightVentricle,
    "LA": codes.SCT.LeftAtrium,
    "RA": codes.SCT.RightAtrium,
    "AO": codes.SCT.Aorta,
    "PA": codes.SCT.PulmonaryArtery,
}
"""Class name -> what it is. The classes of the three bundles; others come by ``--codes``."""


def read_codes(path: Path) -> dict[str, Code]:
    """Read further codes from JSON, ``{"liver": ["10200004", "SCT", "Liver"]}``."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): Code(*(str(word) for word in entry)) for name, entry in content.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: is not a table of codes ({error}). Write one like "
            '{"liver": ["10200004", "SCT", "Liver"]}: value, scheme, meaning.'
        ) from error


def segment_descriptions(
    classes: Sequence[str], extra: dict[str, Code], name: str, version: str, sha256: str = ""
) -> list[SegmentDescription]:
    """
    Describe the segments, in the order of the classes and without the background.

    Args:
        classes: class names, background first.
        extra: further codes, see :func:`read_codes`.
        name: of the model.
        version: of the model.
        sha256: hash of the model, of which the beginning is noted.

    Raises:
        DataError: when a class has no code.
    """
    known: dict[str, Code] = {**STRUCTURES, **extra}
    missing = [label for label in classes[1:] if label not in known]
    if missing:
        raise DataError(
            f"no code for the class(es) {', '.join(missing)}, which DICOM SEG needs. Known: {', '.join(known)}. Name "
            'the others in a file, {"' + missing[0] + '": ["value", "SCT", "meaning"]}, and add --codes FILE.'
        )
    shared: dict[str, Any] = {
        "segmented_property_category": codes.SCT.AnatomicalStructure,
        "algorithm_name": name[:64],  # DICOM's longest string
        "algorithm_version": f"{version} {sha256[:16]}".strip()[:64],
    }
    return [SegmentDescription(label[:64], segmented_property_type=known[label], **shared) for label in classes[1:]]
