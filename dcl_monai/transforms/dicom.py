"""Regions that were drawn on a DICOM series, RTSTRUCT and SEG, on the voxels of the series."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from monai.data import MetaTensor
from monai.utils import optional_import
from skimage.draw import polygon

from dcl_monai.datalist.dicom import RTSTRUCT, has_pydicom, is_dicom_file, pydicom, read_header
from dcl_monai.utils import DataError
from dcl_monai.utils.errors import in_a_line

highdicom, has_highdicom = optional_import("highdicom")

FLIP = np.diag([-1.0, -1.0, 1.0, 1.0])
"""DICOM's patient axes point to the left and back, MONAI's to the right and front."""
OFF_PLANE = 0.3
"""A contour may leave the plane of its slice by so many slices."""
OFF_GRID = 0.1
"""A voxel of a SEG may lie so many voxels off one of the image."""
UNEVEN = 0.1
"""Distances between the slices of a series may differ by so much of the smallest."""
EPSILON = 1e-2
"""A contour runs through a voxel's centre that is so many voxels away from it."""


class Series(NamedTuple):
    """What a series is known by."""

    uid: str
    frame_of_reference: str


def read_region(path: str, region: str, image: torch.Tensor, folder: str) -> MetaTensor:
    """
    Read one region of an RTSTRUCT or SEG as a mask of zeros and ones, (1, H, W, D), on the grid of its image.

    Args:
        path: the file.
        region: its name in the file.
        image: the series that it was drawn on, (C, H, W, D), with its place in space.
        folder: folder of the series.

    Raises:
        DataError: when the file belongs to another series, or cannot be read.
    """
    if not isinstance(image, MetaTensor) or image.ndim != 4:
        raise DataError(f"{path}: was drawn on a DICOM series. Give the folder of the series as its image.")
    data = _loaded(path, Path(path).stat().st_mtime_ns)
    check_series(path, data, series_of(folder))
    to_voxels = np.linalg.inv(FLIP @ np.asarray(image.affine, dtype=float))
    shape = tuple(image.shape[1:])
    draw = _contours if data.SOPClassUID in RTSTRUCT else _segment
    mask = draw(path, data, region, to_voxels, shape)
    return MetaTensor(
        torch.from_numpy(mask[None].astype(np.float64)), meta=dict(image.meta) | {"filename_or_obj": path}
    )


@lru_cache(maxsize=2)
def _loaded(path: str, changed: int) -> Any:
    """A file, once for all its regions."""
    data = read_header(path, pixels=True)
    if data.SOPClassUID in RTSTRUCT:
        return data
    if not has_highdicom:
        raise DataError(f"{path}: DICOM SEG needs further packages: pip install dcl-monai[dicom].")
    try:
        return highdicom.seg.Segmentation.from_dataset(data, copy=False)
    except Exception as error:  # highdicom raises whatever it likes
        raise DataError(f"{path}: cannot be read as SEG ({in_a_line(error)}). Export the file again.") from error


def series_of(folder: str | Path) -> Series:
    """What the series in a folder is known by."""
    paths = sorted(Path(folder).iterdir()) if Path(folder).is_dir() else [Path(folder)]
    for path in paths:
        if is_dicom_file(path):
            data = pydicom.dcmread(path, specific_tags=["SeriesInstanceUID", "FrameOfReferenceUID"])
            return Series(str(data.get("SeriesInstanceUID", "")), str(data.get("FrameOfReferenceUID", "")))
    raise DataError(f"{folder}: is not a DICOM series, but its label is a DICOM file. Give the folder of the series.")


def check_stack(folder: str | Path) -> None:
    """Refuse a series in which slices are missing: readers would put the others at even distances."""
    heights = []
    for path in sorted(Path(folder).iterdir()) if has_pydicom else ():
        if is_dicom_file(path):
            data = pydicom.dcmread(path, specific_tags=["ImagePositionPatient", "ImageOrientationPatient"])
            if data.get("ImagePositionPatient") and data.get("ImageOrientationPatient"):
                directions = np.asarray(data.ImageOrientationPatient, dtype=float).reshape(2, 3)
                heights.append(float(np.cross(*directions) @ np.asarray(data.ImagePositionPatient, dtype=float)))
    steps = np.diff(np.unique(np.round(heights, 2)))
    if len(steps) > 1 and steps.max() > (1 + UNEVEN) * steps.min():
        raise DataError(
            f"{folder}: its slices are {steps.min():g} to {steps.max():g} mm apart. Add the missing ones, or take "
            "the series off the list."
        )


def check_series(path: str, data: Any, series: Series) -> None:
    """Refuse a label of another series, or of another frame of reference."""
    frames, named = set(), set()
    if data.get("FrameOfReferenceUID"):
        frames.add(str(data.FrameOfReferenceUID))
    for frame in data.get("ReferencedFrameOfReferenceSequence", ()):
        frames.add(str(frame.get("FrameOfReferenceUID", "")))
        for study in frame.get("RTReferencedStudySequence", ()):
            named |= {str(entry.get("SeriesInstanceUID", "")) for entry in study.get("RTReferencedSeriesSequence", ())}
    named |= {str(entry.get("SeriesInstanceUID", "")) for entry in data.get("ReferencedSeriesSequence", ())}
    if frames - {""} and series.frame_of_reference and series.frame_of_reference not in frames:
        raise DataError(
            f"{path}: belongs to the frame of reference {min(frames)}, but its image has {series.frame_of_reference}. "
            "Give its own label."
        )
    if named - {""} and series.uid not in named:
        raise DataError(
            f"{path}: was drawn on the series {min(named)}, but its image is {series.uid}. Give its own label."
        )


def _contours(path: str, data: Any, region: str, to_voxels: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The mask of a region of an RTSTRUCT."""
    (number,) = (roi.ROINumber for roi in data.StructureSetROISequence if str(roi.ROIName).strip() == region)
    planes: dict[tuple[int, int], list[np.ndarray]] = {}
    for points in _closed(data, number):
        voxels = (to_voxels @ np.c_[points, np.ones(len(points))].T).T[:, :3]
        axis = int(np.ptp(voxels, axis=0).argmin()) if len(points) > 2 else 2
        k = round(float(voxels[:, axis].mean()))
        if np.abs(voxels[:, axis] - k).max() > 0.5 + OFF_PLANE or not 0 <= k < shape[axis]:
            raise DataError(
                f"{path}: a contour of {region!r} does not lie in a slice of its image. Export it for this series."
            )
        planes.setdefault((axis, k), []).append(np.delete(voxels, axis, axis=1))
    mask = np.zeros(shape, bool)
    for (axis, k), contours in planes.items():
        window = tuple(k if other == axis else slice(None) for other in range(3))
        mask[window] |= fill_contours(contours, mask[window].shape)
    return mask


def _closed(data: Any, number: Any) -> Iterator[np.ndarray]:
    """Points (n, 3) of the closed contours of a region, in mm."""
    for roi in data.get("ROIContourSequence", ()):
        if roi.ReferencedROINumber == number:
            for contour in roi.get("ContourSequence", ()):
                if str(contour.get("ContourGeometricType", "")).startswith("CLOSED"):
                    yield np.asarray(contour.ContourData, dtype=float).reshape(-1, 3)


def fill_contours(contours: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """
    The pixels of a slice whose centres lie inside contours, or on them; a contour within a filled one is a hole.

    The corners (n, 2) of every contour are in pixels; the centre of the first pixel is (0, 0).
    """
    mask = np.zeros(shape, bool)
    for corners in sorted(contours, key=_area, reverse=True):
        wide, narrow = np.zeros(shape, bool), np.ones(shape, bool)
        for shift in ((-EPSILON, -EPSILON), (-EPSILON, EPSILON), (EPSILON, -EPSILON), (EPSILON, EPSILON)):
            inside = np.zeros(shape, bool)
            rows, columns = (corners + shift).T
            inside[polygon(rows, columns, shape)] = True
            wide |= inside
            narrow &= inside
        centres = np.rint(corners)
        on = (np.abs(corners - centres).max(1) <= EPSILON) & (centres >= 0).all(1) & (centres < shape).all(1)
        wide[tuple(centres[on].astype(int).T)] = True
        if narrow.any() and mask[narrow].mean() > 0.5:
            mask &= ~narrow
        else:
            mask |= wide
    return mask


def _area(corners: np.ndarray) -> float:
    x, y = corners.T
    return float(abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))))


def _segment(path: str, data: Any, region: str, to_voxels: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The mask of a segment of a SEG."""
    (number,) = (s.SegmentNumber for s in data.SegmentSequence if str(s.SegmentLabel).strip() == region)
    mask = np.zeros(shape, bool)
    try:
        volume = data.get_volume(segment_numbers=[number], allow_missing_positions=True)
    except Exception as error:  # highdicom raises whatever it likes
        raise DataError(f"{path}: its segments do not form a volume ({in_a_line(error)}). Export it again.") from error
    drawn = np.argwhere(np.asarray(volume.array)[..., 0] > 0.5)
    exact = (to_voxels @ volume.affine @ np.c_[drawn, np.ones(len(drawn))].T).T[:, :3]
    places = np.rint(exact).astype(int)
    if len(drawn) and np.abs(exact - places).max() > OFF_GRID:
        raise DataError(f"{path}: its voxels lie between those of its image. Export it on the grid of this series.")
    if ((places < 0) | (places >= shape)).any():
        raise DataError(f"{path}: {region!r} reaches beyond its image. Export it for this series.")
    mask[tuple(places.T)] = True
    return mask
