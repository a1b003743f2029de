"""Images of an item: one file, or one per channel; volumes, DICOM series, and pictures (PNG, JPEG, TIFF)."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import torch
from monai.config import KeysCollection
from monai.data import MetaTensor
from monai.data.utils import to_affine_nd
from monai.transforms import LoadImaged, ResampleToMatch
from PIL import Image, ImageColor, UnidentifiedImageError

from dcl_monai.datalist.sources import PICTURES
from dcl_monai.utils.files import replace_atomic

CHANNEL_FILES = "further_images"
"""Entry of an item: the files of its second channel, its third, ..."""
MM_PER_INCH = 25.4
SCREENS = (72, 96)
"""Resolutions in dots per inch that programs write where they know none."""
TOLERANCE_MM = 1e-2

# MONAI says so for every LoadImage, in every process, where pydicom is there and CUDA is not
logging.getLogger("monai.data.nvimgcodec_pydicom_plugin").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", message="NvImgCodecPydicomReader: nvImageCodec decoder plugin did not register")


class LoadImagesd(LoadImaged):
    """
    MONAI's ``LoadImaged`` for items of a datalist: the image becomes (C, H, W, D), whatever it was stored as.

    - ``further_images`` of an item are its other channels; one on another grid is resampled onto the first.
    - A picture becomes a volume of one slice. Its pixel size is ``pixel_size`` of the item in mm, or what its file
      says, or 1 mm.

    Args:
        keys: key of the image file.
        allow_missing_keys: don't raise if a key is missing.
    """

    def __init__(self, keys: KeysCollection, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, ensure_channel_first=True, allow_missing_keys=allow_missing_keys)

    def __call__(self, data: Mapping[Hashable, Any], reader: Any = None) -> dict[Hashable, Any]:
        d = dict(data)
        further, pixel_size = d.pop(CHANNEL_FILES, ()), d.pop("pixel_size", None)
        for key in self.key_iterator(d):
            path = d[key]
            if isinstance(path, (str, Path)) and is_picture(path):
                d[key] = read_picture(path, pixel_size=pixel_size)
            else:
                d = dict(super().__call__(d, reader))
            channels = [d[key], *(self.load(name, pixel_size) for name in further)]
            d[key] = stack_channels([as_volume(channel) for channel in channels])
            d[key].meta["original_channel_dim"] = 0  # for an EnsureChannelFirstd that follows
        return d

    def load(self, path: str | Path, pixel_size: Sequence[float] | None) -> MetaTensor:
        """Load the file of a further channel."""
        if is_picture(path):
            return read_picture(path, pixel_size=pixel_size)
        loaded = self._loader(path)
        return loaded if isinstance(loaded, MetaTensor) else loaded[0]  # MONAI Label asks for the header, too


def is_picture(path: str | Path) -> bool:
    """Whether a name is that of a 2D picture."""
    return str(path).lower().endswith(PICTURES)


def read_picture(
    path: str | Path, dtype: type = np.float32, pixel_size: Sequence[float] | None = None, label: bool = False
) -> MetaTensor:
    """
    Read a PNG, JPEG, TIFF or BMP as a volume of one slice, (C, W, H, 1), grey or red, green and blue.

    The first axis goes to the right of the picture, which is the patient's left, the second one down.

    Args:
        path: the file.
        dtype: of the values.
        pixel_size: width and height of a pixel in mm; default: as the file says, or 1 mm.
        label: whether it is a label map: of an indexed picture the indices count, not the colours, and three equal
            channels are one.
    """
    try:
        with Image.open(path) as picture:
            if getattr(picture, "n_frames", 1) > 1:
                raise ValueError(f"{picture.n_frames} pages; save each as a file of its own")
            if label and picture.format == "JPEG":
                raise ValueError("JPEG changes the values of a label map; save it as PNG or TIFF")
            pixels = _pixels(picture, label)
            known = pixel_size or _file_size(picture)
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(str(error).replace(str(path), "the file")) from error
    if label and pixels.ndim == 3 and (pixels == pixels[..., :1]).all():
        pixels = pixels[..., 0]
    planes = pixels[..., None] if pixels.ndim == 2 else pixels  # rows, columns, channels
    values: np.ndarray = np.ascontiguousarray(planes.transpose(2, 1, 0)[..., None], dtype=dtype)
    width, height = known or (1.0, 1.0)
    affine = torch.diag(torch.tensor([-width, -height, 1.0, 1.0], dtype=torch.float64))
    meta = {"filename_or_obj": str(path), "spatial_shape": np.asarray(values.shape[1:])}
    return MetaTensor(torch.from_numpy(values), affine=affine, meta=meta)


def open_source(path: str | Path, pixel_size: Sequence[float] | None = None, label: bool = False) -> Any:
    """A file as nibabel sees it; of a picture a NIfTI image of its voxels, one slice, and of its pixel size."""
    if not is_picture(path):
        return nib.load(path)
    picture = read_picture(path, pixel_size=pixel_size, label=label)
    return nib.Nifti1Image(picture.numpy().mean(0), picture.affine.numpy())


def write_picture(indices: np.ndarray, colours: Sequence[str], path: Path) -> None:
    """
    Write a label map (W, H) of indices below 256 as an indexed PNG, in one step.

    The palette shows the indices from 1 on in the colours, repeated where there are more, and 0 in black.
    """
    picture = Image.fromarray(np.ascontiguousarray(indices.T, dtype=np.uint8))
    shown = [(0, 0, 0), *(ImageColor.getrgb(colours[index % len(colours)]) for index in range(255))]
    picture.putpalette([part for colour in shown for part in colour])
    replace_atomic(path, lambda temporary: picture.save(temporary, format="PNG"))


def pixel_size_of(path: str | Path) -> tuple[float, float] | None:
    """Width and height of a pixel in mm, as the file of a picture says; ``None`` if it does not."""
    with Image.open(path) as picture:
        return _file_size(picture)


def _pixels(picture: Image.Image, label: bool) -> np.ndarray:
    """Rows, columns and, of colours, channels."""
    if picture.mode == "P" and not label:
        picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
    if picture.mode in ("LA", "La", "RGBA", "RGBa", "PA"):
        if np.asarray(picture.getchannel("A")).min() < 255:
            raise ValueError("it has transparent parts; save it without an alpha channel")
        picture = picture.convert("L" if picture.mode.startswith("L") else "RGB")
    if picture.mode not in ("1", "L", "P", "RGB", "F") and not picture.mode.startswith("I"):
        raise ValueError(f"its colours are stored as {picture.mode}; save it as grey values or RGB")
    return np.asarray(picture)


def _file_size(picture: Image.Image) -> tuple[float, float] | None:
    dots = picture.info.get("dpi")
    if dots is None or not all(np.isfinite(float(d)) and float(d) > 1 for d in dots):
        return None
    if any(all(abs(float(d) - screen) < 0.5 for d in dots) for screen in SCREENS):
        return None
    return MM_PER_INCH / float(dots[0]), MM_PER_INCH / float(dots[1])


def as_volume(image: MetaTensor) -> MetaTensor:
    """An image (C, H, W) as a volume of one slice (C, H, W, 1); others as they are."""
    if image.ndim != 3:
        return image
    affine = to_affine_nd(3, image.affine)
    meta = {key: value for key, value in image.meta.items() if key != "affine"} | {
        "spatial_shape": np.asarray([*image.shape[1:], 1])
    }
    return MetaTensor(image.as_tensor()[..., None], affine=affine, meta=meta)


def same_grid(image: MetaTensor, other: MetaTensor) -> bool:
    """Whether the voxels of two images lie at the same places."""
    return (
        image.shape[1:] == other.shape[1:]
        and float((image.affine - other.affine.to(image.affine)).abs().max()) <= TOLERANCE_MM
    )


def stack_channels(images: Sequence[MetaTensor]) -> MetaTensor:
    """Put images (C, H, W, D) into one, as its channels; those on another grid are resampled onto the first."""
    first = images[0]
    if len(images) == 1:
        return first
    resample = ResampleToMatch(mode="bilinear", padding_mode="border")
    others = [image if same_grid(first, image) else resample(image, first) for image in images[1:]]
    stacked = torch.cat([torch.Tensor.as_subclass(image, torch.Tensor).to(first.dtype) for image in (first, *others)])
    return MetaTensor(stacked, meta=dict(first.meta))


LoadImagesD = LoadImagesDict = LoadImagesd
