"""
DICOM series in.

Three things in the SDK's stock operators are repaired here: the loader drops all but one of the images at one position,
so that a cine comes out as a mix of phases; the volume's affine has the two values of PixelSpacing the wrong way round;
and the values of all slices are forced into the type of the first one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from errors import DataError
from monai.deploy.core import Image
from monai.deploy.operators import (
    DICOMDataLoaderOperator,
    DICOMSeriesToVolumeOperator,
)
from pydicom import Dataset, FileMetaDataset, dcmread
from pydicom.filereader import _read_file_meta_info, read_preamble
from pydicom.pixels import apply_presentation_lut, apply_rescale, get_decoder
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    MediaStorageDirectoryStorage,
    generate_uid,
)
from utils.errors import first_line
from utils.images import check_size, check_values

__all__ = [
    "SeriesLoaderOperator",
    "SeriesToVolumeOperator",
    "is_dicom",
    "read_header",
    "split_series",
]

TAGS = [
    "SOPClassUID",
    "SOPInstanceUID",
    "StudyInstanceUID",
    "SeriesInstanceUID",
    "Modality",
    "Rows",
    "Columns",
    "BitsAllocated",
    "SamplesPerPixel",
    "NumberOfFrames",
    "PixelSpacing",
    "ImageOrientationPatient",
    "ImagePositionPatient",
    "TemporalPositionIdentifier",
    "TriggerTime",
    "SliceThickness",
    "SpacingBetweenSlices",
]
PATIENT_AND_STUDY = [
    "PatientName",
    "PatientID",
    "PatientBirthDate",
    "PatientSex",
    "StudyID",
    "StudyDate",
    "StudyTime",
    "AccessionNumber",
    "ReferringPhysicianName",
    "PositionReferenceIndicator",
]
"""What a SEG takes over from its images, where it may be empty but not missing."""
PHASE_TAGS = ("TemporalPositionIdentifier", "TriggerTime")
"""What tells the images at one position apart, the first that does."""
NO_IMAGES = ("SEG", "SR", "PR", "KO", "RTSTRUCT", "DOC")
"""Modalities of objects about images, which are passed over."""
TOLERANCE = 0.1
"""mm that the position of a slice may be off its place in an even stack; scanners write a few decimals."""


@dataclass(frozen=True)
class Slice:
    """A file and what its header says."""

    path: Path
    header: Dataset

    @property
    def position(self) -> np.ndarray:
        """Of the first pixel, mm, LPS."""
        return np.array([float(value) for value in self.header.ImagePositionPatient])


def has_preamble(path: Path) -> bool:
    """Whether a file begins as DICOM files on disk do."""
    with path.open("rb") as file:
        return file.read(132)[128:] == b"DICM"


def is_dicom(path: Path) -> bool:
    """Whether a file says that it is DICOM; some programs leave out the 128 bytes before it says so."""
    if has_preamble(path):
        return True
    with path.open("rb") as file:
        if file.read(4) not in (b"\x02\x00\x00\x00", b"\x08\x00\x05\x00", b"\x08\x00\x08\x00", b"\x08\x00\x16\x00"):
            return False
    try:
        if transfer_syntax(path) == DeflatedExplicitVRLittleEndian:
            return True  # is refused for that
        return "SOPClassUID" in dcmread(path, stop_before_pixels=True, specific_tags=["SOPClassUID"], force=True)
    except Exception:  # pydicom raises whatever it likes
        return False


def transfer_syntax(path: Path) -> UID | None:
    """How the values of a file are written, if it says so; nothing behind it is read."""
    with path.open("rb") as file:
        read_preamble(file, force=True)
        syntax = _read_file_meta_info(file).get("TransferSyntaxUID")
    return UID(syntax) if syntax else None


def read_header(path: Path) -> Slice | None:
    """
    Read what is needed of a DICOM file, without its pixels.

    Returns:
        the slice, or ``None`` for an object that is no image.

    Raises:
        DataError: when the file cannot be read, or its pixels are not as large as the header says.
    """
    try:
        syntax = transfer_syntax(path) or ImplicitVRLittleEndian
        if syntax == DeflatedExplicitVRLittleEndian:  # pydicom would unpack all of it at once, however much that is
            raise DataError(f"{path}: is deflated as a whole, which is not supported. Write it uncompressed.")
        header = dcmread(path, stop_before_pixels=True, specific_tags=TAGS, force=True)
        if header.SOPClassUID == MediaStorageDirectoryStorage or header.get("Modality") in NO_IMAGES:
            return None
        if "Rows" not in header:
            return None
        rows, columns = int(header.Rows), int(header.Columns)
        frames = int(header.get("NumberOfFrames") or 1)
        needed = rows * columns * frames * int(header.BitsAllocated) // 8 * int(header.get("SamplesPerPixel") or 1)
    except DataError:
        raise
    except Exception as error:  # pydicom raises whatever it likes
        raise DataError(f"{path}: cannot be read as DICOM ({first_line(error)}). Copy the file again.") from error
    if frames > 1:
        raise DataError(f"{path}: holds {frames} frames (enhanced DICOM). Convert it to one slice per file.")
    if int(header.get("SamplesPerPixel") or 1) != 1:
        raise DataError(f"{path}: is a colour image, but one number per pixel is needed. Convert it to grey values.")
    if not syntax.is_compressed and path.stat().st_size < needed:
        raise DataError(
            f"{path}: is shorter than its header says ({rows} x {columns} pixels, {needed} bytes). Copy the file again."
        )
    if syntax.is_compressed and not get_decoder(syntax).is_available:
        raise DataError(f"{path}: has an unsupported compression ({syntax.name}). Decompress it: gdcmconv --raw.")
    for name in ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID"):
        if not re.fullmatch(r"[0-9.]{1,64}", str(header.get(name, ""))):  # outputs are named by it
            raise DataError(
                f"{path}: its {name} is {str(header.get(name, ''))[:80]!r}, which is not a UID. Correct the file."
            )
    return Slice(path, header)


def split_series(slices: Sequence[Slice], modality: str, pixdim: Sequence[float]) -> list[list[Path]]:
    """
    Check that the slices of a series are even stacks, one for each phase.

    Args:
        slices: all that have one SeriesInstanceUID.
        modality: what the model was made for.
        pixdim: voxel size in mm of the network's grid, -1 where it stays as it is.

    Returns:
        files of each phase, in the order of time; one phase for an ordinary series.

    Raises:
        DataError: when they are not.
    """
    name = f"{slices[0].path.parent} (series {slices[0].header.SeriesInstanceUID})"
    first = slices[0].header
    if first.get("Modality") != modality:
        raise DataError(
            f"{name}: its modality is {first.get('Modality')}, but the model takes {modality}. Give a series "
            f"of {modality}."
        )
    for tag in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing"):
        absent = [part.path.name for part in slices if not part.header.get(tag)]
        if absent:
            raise DataError(f"{name}: {absent[0]} has no {tag}: its place in space is unknown. Remove it.")
    for tag, tolerance in (("Rows", 0.0), ("Columns", 0.0), ("PixelSpacing", 1e-4), ("ImageOrientationPatient", 1e-3)):
        for part in slices:
            if not np.allclose(numbers(part.header, tag), numbers(first, tag), rtol=0, atol=tolerance):
                raise DataError(
                    f"{name}: {part.path.name} has {tag} {part.header[tag].value} and {slices[0].path.name} has "
                    f"{first[tag].value}: not one stack. Give one stack per series."
                )
    phases = split_phases(slices, name)
    if len({part.header.SOPInstanceUID for part in slices}) < len(slices):
        raise DataError(f"{name}: two files have one SOPInstanceUID. Remove the copy.")
    for stack in phases:
        check_even(stack, name)
    shape = (int(first.Columns), int(first.Rows), len(phases[0]))
    check_size(name, shape, np.linalg.norm(stack_affine(phases[0])[:3, :3], axis=0).tolist(), pixdim)
    return [[part.path for part in stack] for stack in phases]


def numbers(header: Dataset, tag: str) -> np.ndarray:
    """The values of a tag as floats."""
    value = header[tag].value
    return np.array([float(word) for word in ([value] if isinstance(value, (int, float)) else value)])


def split_phases(slices: Sequence[Slice], name: str) -> list[list[Slice]]:
    """Sort slices along the stack, and those at one position by phase."""
    normal = slice_normal(slices[0].header)
    places: dict[tuple[float, ...], list[Slice]] = defaultdict(list)
    for part in slices:
        places[tuple(np.round(part.position, 3))].append(part)
    columns = sorted(places.values(), key=lambda column: float(column[0].position @ normal))
    counts = {len(column) for column in columns}
    if counts == {1}:
        return [[column[0] for column in columns]]
    if len(counts) > 1:
        raise DataError(
            f"{name}: has {min(counts)} to {max(counts)} images at one position: phases are missing or copies are "
            "there. Complete the series, or give one phase per folder."
        )
    for tag in PHASE_TAGS:
        times = [[part.header.get(tag) for part in column] for column in columns]
        if all(None not in row and len({float(time) for time in row}) == len(row) for row in times):
            orders = [np.argsort([float(time) for time in row]) for row in times]
            ordered = [[column[i] for i in order] for column, order in zip(columns, orders, strict=True)]
            return [list(stack) for stack in zip(*ordered, strict=True)]
    raise DataError(
        f"{name}: has {max(counts)} images at every position, and neither {' nor '.join(PHASE_TAGS)} tells them apart. "
        "Give one phase per series."
    )


def slice_normal(header: Dataset) -> np.ndarray:
    """Direction of the stack, of length 1, LPS."""
    orientation = numbers(header, "ImageOrientationPatient")
    return np.cross(orientation[:3], orientation[3:])


def check_even(stack: Sequence[Slice], name: str) -> None:
    """Refuse a stack with a gap, or one that is bent."""
    positions = np.stack([part.position for part in stack])
    even = np.linspace(positions[0], positions[-1], len(positions))
    off = np.linalg.norm(positions - even, axis=1)
    if off.max() > TOLERANCE:
        steps = np.diff(positions @ slice_normal(stack[0].header))
        raise DataError(
            f"{name}: its slices are {steps.min():.2f} to {steps.max():.2f} mm apart, which is not an even stack "
            f"({stack[int(off.argmax())].path.name} is {off.max():.2f} mm off). Complete the series."
        )


def stack_affine(stack: Sequence[Slice]) -> np.ndarray:
    """
    The RAS affine of a sorted stack, (4, 4), for voxels in the order column, row, slice.

    PixelSpacing is the distance of the rows and then of the columns: the second value is the step from one column to
    the next. A single slice is as thick as its header says.
    """
    header = stack[0].header
    orientation, spacing = numbers(header, "ImageOrientationPatient"), numbers(header, "PixelSpacing")
    if len(stack) > 1:
        step = (stack[-1].position - stack[0].position) / (len(stack) - 1)
    else:
        thickness = float(header.get("SpacingBetweenSlices") or header.get("SliceThickness") or 1)
        step = slice_normal(header) * thickness
    affine = np.eye(4)
    affine[:3, 0], affine[:3, 1] = orientation[:3] * spacing[1], orientation[3:] * spacing[0]
    affine[:3, 2], affine[:3, 3] = step, stack[0].position
    return np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine


def complete_file(path: Path, folder: Path) -> Path:
    """
    Make a file as the stock operators and a SEG need it: with its first 128 bytes, and with all that is taken over.

    What is missing of patient and study becomes empty, and a missing FrameOfReferenceUID is made from the series' UID.

    Args:
        path: the file.
        folder: where a completed copy is written.

    Returns:
        the file itself if nothing is missing, or the copy.
    """
    data = dcmread(path, force=True)
    missing = [name for name in PATIENT_AND_STUDY if name not in data]
    if has_preamble(path) and not missing and data.get("FrameOfReferenceUID"):
        return path
    for name in missing:
        setattr(data, name, "")
    if not data.get("FrameOfReferenceUID"):
        data.FrameOfReferenceUID = generate_uid(entropy_srcs=[str(data.SeriesInstanceUID)])
    meta = getattr(data, "file_meta", None) or FileMetaDataset()
    if "TransferSyntaxUID" not in meta:
        meta.TransferSyntaxUID = ImplicitVRLittleEndian if data.original_encoding[0] else ExplicitVRLittleEndian
    data.file_meta = meta
    copy = folder / f"{data.SOPInstanceUID}.source"
    data.save_as(copy, enforce_file_format=True)
    return copy


class SeriesLoaderOperator(DICOMDataLoaderOperator):
    """
    The stock loader, for given files instead of all in a folder: those of one phase of one series.

    Args:
        files: the files, after :func:`split_series`.
        scratch: folder for files that have to be completed, see :func:`complete_file`.
    """

    def __init__(self, *args: Any, files: Sequence[Path], scratch: Path, **kwargs: Any) -> None:
        self.files = files
        self.scratch = scratch
        super().__init__(*args, input_folder=files[0].parent, **kwargs)

    def _list_files(self, path: Any, files: list[str]) -> None:
        files.extend(str(complete_file(part, self.scratch)) for part in self.files)


class SeriesToVolumeOperator(DICOMSeriesToVolumeOperator):
    """The stock operator, with an affine that is right for pixels that are not square, and values as they are."""

    def convert_to_image(self, study_selected_series_list: Any) -> Image:
        """Return the volume (W, H, D) with all the metadata that MONAI's transforms ask for."""
        stock = super().convert_to_image(study_selected_series_list)  # sorts the slices and stacks their values
        series = study_selected_series_list[0].selected_series[0].series
        stack = [Slice(Path(), part.get_native_sop_instance()) for part in series.get_sop_instances()]
        affine = stack_affine(stack)
        array = np.ascontiguousarray(np.swapaxes(stock.asnumpy(), 0, 2))
        meta = {
            "affine": affine,
            "original_affine": affine.copy(),
            "spacing": np.linalg.norm(affine[:3, :3], axis=0),
            "spatial_shape": np.asarray(array.shape),
            "original_channel_dim": "no_channel",
            "space": "RAS",
        }
        return Image(array, metadata=meta)

    def generate_voxel_data(self, series: Any) -> np.ndarray:
        """Stack the values of the slices, (D, H, W), each rescaled by its own header."""

        def values(part: Any) -> np.ndarray:
            native = part.get_native_sop_instance()
            rescaled = apply_rescale(part.get_pixel_array(), native)
            return np.asarray(apply_presentation_lut(rescaled, native), dtype=np.float32)

        volume = np.stack([values(part) for part in series.get_sop_instances()])
        check_values(f"series {series.SeriesInstanceUID}", volume)
        return volume
