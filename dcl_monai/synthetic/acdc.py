"""Cine stacks in the layout of the ACDC challenge: a folder per patient."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from dcl_monai.utils.files import write_atomic

from .dataset import Layout, remove_files, write_dataset
from .short_axis import GROUPS, PHASES, synthesize_subject
from .volume import write_nifti


@dataclass(frozen=True, kw_only=True)
class _PatientFolders(Layout):
    """A folder with ``Info.cfg``, which is written last, and the four volumes it announces."""

    def names(self, index: int) -> set[str]:
        return {f"patient{index + 1:03d}"}

    def is_complete(self, root: Path, index: int) -> bool:
        folder = self._folder(root, index)
        info = folder / "Info.cfg"
        if not info.is_file():
            return False
        frames = dict(re.findall(r"^(ED|ES): (\d+)$", info.read_text(encoding="utf-8"), flags=re.MULTILINE))
        return all(
            phase in frames and _volume(folder, int(frames[phase]), suffix).is_file()
            for phase in PHASES
            for suffix in ("", "_gt")
        )

    def write(self, root: Path, index: int, seed: int) -> None:
        folder, subject = self._folder(root, index), synthesize_subject(seed, GROUPS[index % len(GROUPS)])
        for phase, frame in subject.frames.items():
            write_nifti(_volume(folder, frame), subject.images[phase], subject.spacing)
            write_nifti(_volume(folder, frame, "_gt"), subject.labels[phase], subject.spacing)
        info = {
            **subject.frames,
            "Group": subject.group,
            "Height": subject.height,
            "NbFrame": subject.num_frames,
            "Weight": subject.weight,
        }
        write_atomic(folder / "Info.cfg", "".join(f"{key}: {value}\n" for key, value in info.items()))

    def remove(self, root: Path, index: int) -> None:
        folder = self._folder(root, index)
        remove_files(folder, r"Info\.cfg|patient\d+_frame\d+(_gt)?\.nii\.gz")
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()

    def _folder(self, root: Path, index: int) -> Path:
        (name,) = self.names(index)
        return root / name


ACDC = _PatientFolders(generator="dcl_monai.synthetic", version=1, subjects="patient*")
"""The kind of data set that :func:`write_synthetic_acdc` writes."""


def write_synthetic_acdc(folder: str | Path, num_subjects: int = 40, seed: int = 0, progress: bool = True) -> Path:
    """
    Write cine stacks in the layout of the ACDC challenge, unless they are there; see :func:`.dataset.write_dataset`.

    The diagnosis groups take turns. Each subject gets a folder::

        patient001/Info.cfg
        patient001/patient001_frame01.nii.gz      (ED image, int16)
        patient001/patient001_frame01_gt.nii.gz   (ED label map, uint8: 1 RV, 2 MYO, 3 LV)
        patient001/patient001_frame08.nii.gz      (ES, the frame number varies)
        patient001/patient001_frame08_gt.nii.gz
    """
    return write_dataset(ACDC, folder, num_subjects, seed, progress)


def _volume(folder: Path, frame: int, suffix: str = "") -> Path:
    return folder / f"{folder.name}_frame{frame:02d}{suffix}.nii.gz"
