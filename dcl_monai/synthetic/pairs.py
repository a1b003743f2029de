"""Data sets of one image and one label map per subject, all in one folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .dataset import Layout, remove_files
from .volume import SyntheticVolume, write_nifti

__all__ = ["PairedFiles"]


@dataclass(frozen=True, kw_only=True)
class PairedFiles(Layout):
    """
    The layout with one image file and one label file per subject.

    Args:
        image: name of an image file, with ``{}`` for the subject's number.
        label: name of a label file.
        first: number of the first subject.
        values: value in the files of each label of the generator; 0 stays 0.
        make: makes the subject of an index and a seed.
        subjects: all NIfTI files, since a reader may take any of them for a subject's.
    """

    subjects: str = "[!.]*.nii*"
    image: str
    label: str
    first: int
    values: Mapping[int, int]
    make: Callable[[int, int], SyntheticVolume]

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
