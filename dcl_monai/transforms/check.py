"""The check of an image that bundles run before they use one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from monai.config import KeysCollection
from monai.data import MetaTensor
from monai.transforms import MapTransform, Transform
from monai.utils import optional_import

from dcl_monai.utils import DataError
from dcl_monai.utils.images import check_size, check_values, is_nifti, open_image

from .images import CHANNEL_FILES, is_picture

itk, has_itk = optional_import("itk")


def check_file(path: str | Path, pixdim: Sequence[float] = (), dims: Sequence[int] = (3, 4)) -> None:
    """
    Refuse a file by its header, before anything is allocated: NIfTI, see :func:`~dcl_monai.utils.images.open_image`,
    and other formats whose header ITK reads (NRRD, MetaImage, ...). A folder passes.
    """
    path = Path(path)
    if is_nifti(path):
        open_image(path, pixdim, dims)
    elif is_picture(path):  # Pillow looks at the size itself
        return
    elif path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would never end
        raise DataError(f"{path}: cannot be read (no regular file). Replace the file.")
    elif has_itk and path.is_file():
        reader = itk.ImageIOFactory.CreateImageIO(str(path), itk.CommonEnums.IOFileMode_ReadMode)
        if reader is None:  # no format of ITK; MONAI may know it
            return
        try:
            reader.SetFileName(str(path))
            reader.ReadImageInformation()
        except RuntimeError:  # MONAI says more about it when it loads the file
            return
        axes = range(reader.GetNumberOfDimensions())
        spacing = [float(reader.GetSpacing(axis)) for axis in axes][:3]
        check_size(path, [int(reader.GetDimensions(axis)) for axis in axes], spacing, pixdim)


class CheckImage(Transform):
    """
    Refuse an image that cannot be segmented, see :mod:`dcl_monai.utils.images`; others pass as they are.

    It stands twice in a bundle's preprocessing: before the image is loaded, where it looks at the header and at the
    size of the file before anything is allocated, and after that, where it looks at the values.

    Args:
        pixdim: voxel size in mm of the network's grid, -1 where it stays as it is.

    Raises:
        DataError: one line that names the file, the value and the remedy.
    """

    def __init__(self, pixdim: Sequence[float] = ()) -> None:
        self.pixdim = pixdim

    def __call__(self, image: Any) -> Any:
        """
        Check one image.

        Args:
            image: the path of a file, or a loaded image (C, H, W[, D]), with its geometry if it is a ``MetaTensor``.
        """
        if isinstance(image, (str, Path)):
            check_file(image, self.pixdim)
            return image
        name: object = "image"
        if isinstance(image, MetaTensor):
            name = image.meta.get("filename_or_obj", name)
            shape = (*image.shape[1:], *[1] * (4 - image.ndim), len(image))
            check_size(name, shape, [float(size) for size in image.pixdim][:3], self.pixdim)
        for channel in image:
            check_values(name, np.asarray(channel))
        return image


class CheckImaged(MapTransform):
    """Dictionary version of :class:`CheckImage`."""

    def __init__(self, keys: KeysCollection, pixdim: Sequence[float] = (), allow_missing_keys: bool = False) -> None:
        super().__init__(keys, allow_missing_keys)
        self.check = CheckImage(pixdim)

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        d = dict(data)
        for key in self.key_iterator(d):
            self.check(d[key])
        for path in d.get(CHANNEL_FILES, ()):
            self.check(path)
        return d


CheckImageD = CheckImageDict = CheckImaged
