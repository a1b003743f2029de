"""Images and layers as NiiVue takes them: NIfTI files."""

from __future__ import annotations

from collections.abc import Sequence
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

NOTHING, UNION = 255, 254
"""Value of a voxel of whose class nothing is known, and of one that may be of several structures."""
LABELS = ("drawn", "filled", "prediction")
"""Kinds of layers whose values are classes."""
WINDOW = (0.5, 99.5)
"""Percentiles of the grey values that are black and white."""
FAINT = 0.1
"""Part of the largest uncertainty below which nothing is shown."""


@dataclass(frozen=True)
class Volume:
    """
    An image and its layers.

    Args:
        affine: from voxels to mm.
        kinds: of each plane; the first is the image.
        planes: one image or layer each, (H, W, D, T); T is one where it does not change with time.
        scales: of each plane, the numbers (slope, intercept) that make its values those of the file.
        windows: of each plane, the values (of the file) that are shown as the first and as the last colour.
        start: voxel at which the page opens.
    """

    affine: np.ndarray
    kinds: list[str]
    planes: list[np.ndarray]
    scales: list[tuple[float, float]]
    windows: list[tuple[float, float]]
    start: Sequence[int]

    def nifti(self, number: int) -> bytes:
        """A NIfTI file of a plane; of what was filled in only what no person drew."""
        plane = self.planes[number]
        if self.kinds[number] == "filled" and "drawn" in self.kinds:
            plane = np.where(self.planes[self.kinds.index("drawn")] < UNION, NOTHING, plane)
        image = nib.Nifti1Image(plane, self.affine)
        image.header.set_slope_inter(*self.scales[number])
        image.header["cal_min"], image.header["cal_max"] = self.windows[number]
        return image.to_bytes()

    def where(self, label: int) -> Sequence[int]:
        """The voxel at which most is seen of what has this value in a layer; where the page opens if nothing has."""
        planes = zip(self.kinds, self.planes, strict=True)
        shown = np.any([(plane == label).any(3) for kind, plane in planes if kind in LABELS], 0)
        return fullest(shown) if shown.any() else self.start


def load_volume(album: Album, case: Case) -> Volume:
    """
    Read an image and its layers.

    Raises:
        DataError: when a file is missing or damaged, or a layer does not fit its image.
    """
    image, affine = read_image(case.image)
    grey, scale = as_short(image)
    low, high = (float(value) for value in np.percentile(image, WINDOW))
    planes, scales, windows = [grey], [scale], [(low, max(high, low + 1e-6))]
    drawn = np.zeros(image.shape[:3], bool)
    for layer in case.layers:
        plane, most = layer_plane(album, case, layer, image, affine)
        if plane.shape[:3] != image.shape[:3]:
            raise DataError(
                f"{layer.file}: has shape {plane.shape[:3]}, but its image {case.image} {image.shape[:3]}. Run the "
                "command that wrote it again."
            )
        planes.append(plane)
        scales.append((most / 255, 0) if layer.kind == "uncertainty" else (1, 0))
        windows.append((FAINT * most, most) if layer.kind == "uncertainty" else (0, 255))
        if layer.kind in LABELS:
            drawn |= ((plane > 0) & (plane != NOTHING)).any(3)
    kinds = ["image", *(layer.kind for layer in case.layers)]
    start = fullest(drawn) if case.point is None else np.clip(case.point, 0, np.subtract(drawn.shape, 1)).tolist()
    return Volume(affine, kinds, planes, scales, windows, start)


def as_short(image: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """Grey values in 16 bit, which is half of what a browser would have to hold, and the numbers that undo it."""
    low, high = float(image.min()), float(image.max())
    if low >= -(2**15) and high < 2**15 and np.array_equal(image, np.rint(image)):
        return image.astype(np.int16), (1, 0)
    slope, middle = max(high - low, 1e-12) / (2**16 - 2), (high + low) / 2
    return np.rint((image - middle) / slope).astype(np.int16), (slope, middle)


def fullest(shown: np.ndarray) -> list[int]:
    """Along every axis the slice in which most is shown; the middle where nothing is."""
    sums = [shown.sum(tuple({0, 1, 2} - {axis})) for axis in range(3)]
    return [int(s.argmax()) if s.any() else len(s) // 2 for s in sums]


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
