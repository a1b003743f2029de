"""The folder of one subject in the layout of the ACDC challenge."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import nibabel as nib
import numpy as np
from numpy.typing import NDArray

from dcl_monai.utils.files import replace_atomic, write_atomic

from .subject import PHASES, SyntheticSubject

__all__ = ["remove_subject", "subject_folder", "subject_is_complete", "write_subject"]

_OWN_FILE = re.compile(r"\.?(Info\.cfg|patient\d+_frame\d+(_gt)?\.nii\.gz)(\.\d+\.tmp)?")


def subject_folder(root: Path, index: int) -> Path:
    """Return the folder of the subject ``index``, counted from 0."""
    return root / f"patient{index + 1:03d}"


def subject_is_complete(folder: Path) -> bool:
    """Whether ``folder`` holds ``Info.cfg``, which is written last, and the four volumes it announces."""
    info = folder / "Info.cfg"
    if not info.is_file():
        return False
    frames = dict(re.findall(r"^(ED|ES): (\d+)$", info.read_text(encoding="utf-8"), flags=re.MULTILINE))
    return all(
        phase in frames and _volume(folder, int(frames[phase]), suffix).is_file()
        for phase in PHASES
        for suffix in ("", "_gt")
    )


def write_subject(folder: Path, subject: SyntheticSubject) -> None:
    """Write the volumes and then ``Info.cfg`` of one subject."""
    for phase, frame in subject.frames.items():
        _write_nifti(_volume(folder, frame), subject.images[phase], subject.spacing)
        _write_nifti(_volume(folder, frame, "_gt"), subject.labels[phase], subject.spacing)
    info = {
        **subject.frames,
        "Group": subject.group,
        "Height": subject.height,
        "NbFrame": subject.num_frames,
        "Weight": subject.weight,
    }
    write_atomic(folder / "Info.cfg", "".join(f"{key}: {value}\n" for key, value in info.items()))


def remove_subject(folder: Path) -> None:
    """Delete the files that :func:`write_subject` makes, and the folder when nothing else is in it."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.is_file() and _OWN_FILE.fullmatch(path.name):
            path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()


def _volume(folder: Path, frame: int, suffix: str = "") -> Path:
    return folder / f"{folder.name}_frame{frame:02d}{suffix}.nii.gz"


def _write_nifti(path: Path, array: NDArray[np.int16] | NDArray[np.uint8], spacing: tuple[float, float, float]) -> None:
    """Write an array of shape ``(W, H, D)``; its first two axes point to the left and back, as in ACDC."""
    affine = np.diag([-spacing[0], -spacing[1], spacing[2], 1.0])
    image = nib.Nifti1Image(array, affine, dtype=array.dtype)
    image.set_qform(affine, code="scanner")
    image.set_sform(affine, code="scanner")
    image.header.set_xyzt_units(xyz="mm")

    def write(temporary: Path) -> None:  # without name and time in it, so that the same voxels give the same file
        with temporary.open("wb") as file, gzip.GzipFile("", "wb", 1, file, mtime=0) as stream:
            stream.write(image.to_bytes())

    replace_atomic(path, write)
