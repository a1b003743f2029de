"""Late-enhancement stacks in the layout of the MSCMR challenge (MSCMRseg)."""

from __future__ import annotations

from pathlib import Path

from .dataset import write_dataset
from .pairs import PairedFiles
from .short_axis import GROUPS, LABELS, synthesize_late_enhancement

__all__ = ["MSCMR", "write_synthetic_mscmr"]


MSCMR = PairedFiles(
    generator="dcl_monai.synthetic.mscmr",
    version=1,
    image="subject{}_DE.nii.gz",
    label="subject{}_DE_manual.nii.gz",
    first=1,
    values={LABELS["MYO"]: 200, LABELS["LV"]: 500, LABELS["RV"]: 600},
    make=lambda index, seed: synthesize_late_enhancement(seed, GROUPS[index % len(GROUPS)]),
)
"""The kind of data set that :func:`write_synthetic_mscmr` writes."""


def write_synthetic_mscmr(folder: str | Path, num_subjects: int = 45, seed: int = 0, progress: bool = True) -> Path:
    """
    Write late-enhancement stacks in the layout of MSCMR, unless they are there; see :func:`.dataset.write_dataset`.

    By default there are as many subjects as in the paper (25/5/15). The diagnosis groups take turns. The files of a
    subject are::

        subject1_DE.nii.gz          (image, int16)
        subject1_DE_manual.nii.gz   (label map, int16: 200 MYO with its scars, 500 LV, 600 RV)
    """
    return write_dataset(MSCMR, folder, num_subjects, seed, progress)
