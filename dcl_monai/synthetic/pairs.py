"""MSCMR and MM-WHS: data sets of one image and one label map per subject, all in one folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import short_axis, whole_heart
from .dataset import Layout, remove_files, write_dataset
from .short_axis import GROUPS, synthesize_late_enhancement
from .volume import SyntheticVolume, write_nifti
from .whole_heart import synthesize_whole_heart


@dataclass(frozen=True, kw_only=True)
class PairedFiles(Layout):
    """The layout with one image file and one label file per subject."""

    subjects: str = "[!.]*.nii*"  # all NIfTI files, since a reader may take any of them for a subject's
    image: str  # name of an image file, with {} for the subject's number
    label: str  # name of a label file
    first: int  # number of the first subject
    values: Mapping[int, int]  # value in the files of each label of the generator; 0 stays 0
    make: Callable[[int, int], SyntheticVolume]  # makes the subject of an index and a seed

    def names(self, index: int) -> set[str]:
        return {name.format(self.first + index) for name in (self.image, self.label)}

    def is_complete(self, root: Path, index: int) -> bool:
        return all((root / name).is_file() for name in self.names(index))

    def write(self, root: Path, index: int, seed: int) -> None:
        number, subject = self.first + index, self.make(index, seed)
        table = np.zeros(max(self.values) + 1, dtype=np.int16)
        table[list(self.values)] = list(self.values.values())
        write_nifti(root / self.image.format(number), subject.image, subject.spacing)
        write_nifti(root / self.label.format(number), table[subject.labels], subject.spacing)

    def remove(self, root: Path, index: int) -> None:
        remove_files(root, "|".join(re.escape(name) for name in self.names(index)))


MSCMR = PairedFiles(
    generator="dcl_monai.synthetic.mscmr",
    version=1,
    image="subject{}_DE.nii.gz",
    label="subject{}_DE_manual.nii.gz",
    first=1,
    values={short_axis.LABELS[name]: value for name, value in {"MYO": 200, "LV": 500, "RV": 600}.items()},
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


_MMWHS_VALUES = {"MYO": 205, "LA": 420, "LV": 500, "RA": 550, "RV": 600, "AO": 820, "PA": 850}

MMWHS = PairedFiles(
    generator="dcl_monai.synthetic.mmwhs",
    version=1,
    image="mr_train_{}_image.nii.gz",
    label="mr_train_{}_label.nii.gz",
    first=1001,
    values={whole_heart.LABELS[name]: value for name, value in _MMWHS_VALUES.items()},
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
