"""What there is to segment in a folder: NIfTI files, and DICOM series by phase."""

from __future__ import annotations

import fnmatch
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bundle import Bundle
from dicom import Slice, is_dicom, read_header, split_series
from errors import DataError
from utils.images import check_inside, is_nifti, open_image

__all__ = ["Case", "find_cases"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Case:
    """One thing to segment."""

    name: str  # path relative to the folder, without the ending of an output
    files: tuple[Path, ...]  # a NIfTI file, or the slices of a series at one phase
    kind: str  # ``nifti`` or ``dicom``
    frames: int = 1  # number of frames of a NIfTI file; one if its fourth axis holds channels

    @property
    def outputs(self) -> list[str]:
        """Paths of the outputs, relative to their folder."""
        if self.kind == "nifti":
            place = self.name.lower().rindex(".nii")
            return [f"{self.name[:place]}_seg{self.name[place:]}"]
        return [f"{self.name}_seg.nii.gz", f"{self.name}_seg.dcm"]


def find_cases(
    folder: Path, bundle: Bundle, exclude: Sequence[str], refuse: Callable[[str, DataError], None]
) -> list[Case]:
    """
    Look at every file of a folder and the folders below it. Links to folders are not followed.

    Args:
        folder: the folder.
        bundle: the model to run.
        exclude: patterns of file names that are no images.
        refuse: called with the name of a file or series and the reason, for what cannot be segmented.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder. Set --input to a folder of NIfTI files or DICOM series.")
    cases: list[Case] = []
    series: dict[str, list[Slice]] = defaultdict(list)
    for path in list_files(folder):
        name = path.relative_to(folder).as_posix()
        try:
            if any(fnmatch.fnmatch(path.name.lower(), word.lower()) for word in exclude):
                continue
            check_inside(path, folder)
            if is_nifti(path):
                cases.append(Case(name, (path,), "nifti", count_frames(path, bundle)))
            elif path.is_file() and is_dicom(path):  # a pipe would never end
                part = read_header(path)
                if part is not None:
                    series[str(part.header.SeriesInstanceUID)].append(part)
            elif path.suffix.lower() == ".dcm":
                raise DataError(f"{path}: is not a DICOM file, despite its name. Copy the file again.")
        except DataError as error:
            refuse(name, error)
        except OSError as error:
            refuse(name, DataError(f"{path}: cannot be read ({error.strerror}). Check its permissions."))
    for uid, slices in sorted(series.items()):
        parent = Path(os.path.commonpath([part.path.parent for part in slices]))
        name = (parent.relative_to(folder) / uid).as_posix()
        try:
            if bundle.channels > 1:
                raise DataError(
                    f"{parent}: series {uid}: holds one channel, but the model takes {bundle.channels}. Convert the "
                    "series of all channels to one NIfTI file, with the channels along its fourth axis."
                )
            phases = split_series(slices, bundle.modality, bundle.pixdim)
        except DataError as error:
            refuse(name, error)
            continue
        for number, files in enumerate(phases, 1):
            suffix = f"_phase{number:02d}" if len(phases) > 1 else ""
            cases.append(Case(name + suffix, tuple(files), "dicom"))
    return cases


def count_frames(path: Path, bundle: Bundle) -> int:
    """Number of frames of a NIfTI file; of a model of several channels it must hold these along its fourth axis."""
    shape = open_image(path, bundle.pixdim).shape
    length = shape[3] if len(shape) == 4 else 1
    if bundle.channels == 1:
        return length
    if length != bundle.channels:
        raise DataError(
            f"{path}: holds {length} channel(s), but the model takes {bundle.channels}. Put all of them into one file, "
            "along its fourth axis."
        )
    return 1


def list_files(folder: Path) -> Iterator[Path]:
    """All files of a folder, sorted, without hidden ones."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent, name) for name in sorted(files) if not name.startswith("."))
