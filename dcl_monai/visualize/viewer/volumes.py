"""Images and layers as the page draws them: bytes, in the orientation that radiologists look at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from monai.transforms import LoadImage

from dcl_monai.candidates import candidate_sets, from_bits
from dcl_monai.transforms import LoadCandidatesd
from dcl_monai.utils import DataError
from dcl_monai.utils.images import is_nifti, open_image

from .album import Album, Case, Layer

__all__ = ["NOTHING", "UNION", "Volume", "load_volume", "read_image"]

NOTHING, UNION = 255, 254
"""Value of a voxel of whose class nothing is known, and of one that may be of several structures."""
ORIENTATION = nib.orientations.axcodes2ornt(("L", "P", "S"))
WINDOW = (0.5, 99.5)
"""Percentiles of the grey values that are black and white."""


@dataclass(frozen=True)
class Volume:
    """
    An image and its layers.

    Args:
        spacing: mm along the axes, towards left, back and head.
        planes: one image or layer each, bytes (H, W, D, T); T is one where it does not change with time.
        largest: value that 255 stands for, of each; 1 for class indices.
        start: voxel at which the page opens.
    """

    spacing: tuple[float, float, float]
    planes: list[np.ndarray]
    largest: list[float]
    start: tuple[int, int, int]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Height, width, depth and number of frames."""
        height, width, depth, _ = self.planes[0].shape
        return height, width, depth, max(plane.shape[3] for plane in self.planes)

    def slice(self, axis: int, index: int, frame: int) -> bytes:
        """Rows and columns of image and layers, one after the other; heads are up."""
        parts = []
        for plane in self.planes:
            rows = plane[..., min(frame, plane.shape[3] - 1)].take(index, axis).T
            parts.append(np.ascontiguousarray(rows if axis == 2 else rows[::-1]).tobytes())
        return b"".join(parts)


def load_volume(album: Album, case: Case) -> Volume:
    """
    Read an image and its layers.

    Raises:
        DataError: when a file is missing or damaged, or a layer does not fit its image.
    """
    image, affine = read_image(case.image)
    turn = nib.orientations.ornt_transform(nib.orientations.io_orientation(affine), ORIENTATION)
    spacing = nib.affines.voxel_sizes(affine)[np.argsort(turn[:, 0])]
    low, high = np.percentile(image, WINDOW)
    grey = np.clip((image - low) / max(high - low, 1e-12) * 255, 0, 255).astype(np.uint8)
    planes, largest = [grey], [255.0]
    for layer in case.layers:
        plane, most = layer_plane(album, case, layer, image, affine)
        if plane.shape[:3] != image.shape[:3]:
            raise DataError(
                f"{layer.file}: has shape {plane.shape[:3]}, but its image {case.image} {image.shape[:3]}. Run the "
                "command that wrote it again."
            )
        planes.append(plane)
        largest.append(most)
    planes = [nib.orientations.apply_orientation(plane, turn) for plane in planes]
    labels = [plane for layer, plane in zip(case.layers, planes[1:], strict=True) if layer.kind != "uncertainty"]
    point = case.point
    if point is not None:
        inverse = nib.orientations.inv_ornt_aff(turn, image.shape[:3])
        place = np.linalg.inv(inverse) @ [*point, 1]
        start = tuple(int(np.clip(round(p), 0, n - 1)) for p, n in zip(place[:3], planes[0].shape, strict=False))
    else:
        start = fullest(labels, planes[0].shape)
    return Volume(tuple(map(float, spacing)), planes, largest, start)  # type: ignore[arg-type]


def fullest(labels: list[np.ndarray], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Along every axis the slice in which most is drawn; the middle where nothing is."""
    shown = np.zeros(shape[:3], bool)
    for plane in labels:
        shown |= ((plane > 0) & (plane != NOTHING)).any(3)
    sums = [shown.sum(tuple({0, 1, 2} - {axis})) for axis in range(3)]
    return tuple(int(s.argmax()) if s.any() else len(s) // 2 for s in sums)


def read_image(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """An image (H, W, D, T), and its affine with the voxel size that the header gives."""
    if is_nifti(path):
        source: Any = open_image(path, dims=(2, 3, 4))
        values, affine = np.asarray(source.dataobj, dtype=np.float32), np.array(source.affine)
        zooms = np.append(np.asarray(source.header.get_zooms()[:3], float), 1)[:3]
        affine[:3, :3] *= zooms / np.maximum(nib.affines.voxel_sizes(affine), 1e-9)  # pixdim, as MONAI reads it
    else:
        try:
            loaded: Any = LoadImage(image_only=True, dtype=np.float32)(str(path))
        except Exception as error:  # the readers raise whatever they like
            raise DataError(
                f"{path}: cannot be read ({str(error).splitlines()[0][:100]}). Replace the file."
            ) from error
        values, affine = loaded.numpy(), np.eye(4)
        given = np.asarray(loaded.affine)
        affine[: len(given) - 1, : len(given) - 1] = given[:-1, :-1]
    values = values.reshape(*values.shape, *[1] * (4 - values.ndim))
    return np.nan_to_num(values, posinf=0, neginf=0), affine


def layer_plane(
    album: Album, case: Case, layer: Layer, image: np.ndarray, affine: np.ndarray
) -> tuple[np.ndarray, float]:
    """A layer as bytes (H, W, D, T), and the value that 255 stands for."""
    if layer.file is None:
        return drawn_plane(album, case, image), 1.0
    source: Any = open_image(layer.file, dims=(2, 3, 4, 5))
    values = np.asarray(source.dataobj)
    if layer.kind == "uncertainty":
        frames = image.shape[3] > 1
        if values.ndim > 3 + frames:
            values = values.max(-1)
        values = values.reshape(*values.shape, *[1] * (4 - values.ndim)).astype(np.float32)
        most = float(np.nan_to_num(values).max(initial=0)) or 1.0
        return np.clip(np.nan_to_num(values) / most * 255, 0, 255).astype(np.uint8), most
    values = values.reshape(*values.shape, *[1] * (4 - values.ndim))
    known = (values >= 0) & (values < min(len(album.classes), UNION))
    return np.where(known, values, NOTHING).astype(np.uint8), 1.0


def drawn_plane(album: Album, case: Case, image: np.ndarray) -> np.ndarray:
    """What the annotations of an image say of each voxel: its class, one of several structures, or nothing."""
    if case.item is None:
        raise DataError(f"{case.image}: is not in the datalist beside the {len(album.cases)} images of this page.")
    item: Any = dict(case.item)
    label = LoadCandidatesd("label", len(album.classes), classes=album.classes)(
        {**item, "image": LoadImage(image_only=True, ensure_channel_first=True)(str(case.image))}
    )["label"]
    members = [from_bits(bits) for bits in candidate_sets(label)]
    values = [m[0] if len(m) == 1 else NOTHING if 0 in m else UNION for m in members]
    plane = np.asarray(values, np.uint8)[label[0].numpy().astype(int)]
    return plane.reshape(*plane.shape, *[1] * (4 - plane.ndim))
