"""Whole-heart volumes in the layout of the MM-WHS challenge."""

from __future__ import annotations

from pathlib import Path

from .dataset import write_dataset
from .pairs import PairedFiles
from .whole_heart import LABELS, synthesize_whole_heart

__all__ = ["MMWHS", "write_synthetic_mmwhs"]

_VALUES = {"MYO": 205, "LA": 420, "LV": 500, "RA": 550, "RV": 600, "AO": 820, "PA": 850}


MMWHS = PairedFiles(
    generator="dcl_monai.synthetic.mmwhs",
    version=1,
    image="mr_train_{}_image.nii.gz",
    label="mr_train_{}_label.nii.gz",
    first=1001,
    values={LABELS[name]: value for name, value in _VALUES.items()},
    make=lambda index, seed: synthesize_whole_heart(seed),
)
"""The kind of data set that :func:`write_synthetic_mmwhs` writes."""


def write_synthetic_mmwhs(folder: str | Path, num_subjects: int = 60, seed: int = 0, progress: bool = True) -> Path:
    """
    Write whole-heart volumes in the layout of MM-WHS, unless they are there; see :func:`.dataset.write_dataset`.

    By default there are as many subjects as in the paper (20/10/30). The files of a subject are::

        mr_train_1001_image.nii.gz   (image, int16)
        mr_train_1001_label.nii.gz   (label map, int16: 205 MYO, 420 LA, 500 LV, 550 RA, 600 RV, 820 AO, 850 PA)
    """
    return write_dataset(MMWHS, folder, num_subjects, seed, progress)
