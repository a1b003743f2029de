"""
NIfTI files in and out.

The SDK's own loader drops the affine, and the bundle operator then keeps only the first slice for a 2D network. Here an
image comes with everything that MONAI's transforms ask for, read by MONAI's own reader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from monai.deploy.core import Fragment, Image, Operator, OperatorSpec
from monai.transforms import LoadImage
from utils.images import check_values, save_like

__all__ = ["NiftiLoaderOperator", "NiftiWriterOperator"]


class NiftiLoaderOperator(Operator):
    """
    Read a NIfTI file, and emit one frame of it each time it is called.

    Named output:
        image: an Image (W, H, D), or (W, H, D, C) of several channels, with the metadata of MONAI's reader.

    Args:
        path: the file, after :func:`~utils.images.open_image`.
        channels: number of channels; if there are several, the fourth axis holds them, and no frames.
    """

    def __init__(self, fragment: Fragment, *args: Any, path: Path, channels: int = 1, **kwargs: Any) -> None:
        self.path = path
        self.channels = channels
        self.frame = 0
        self.image: Any = None
        super().__init__(fragment, *args, **kwargs)

    def setup(self, spec: OperatorSpec) -> None:
        spec.output("image")

    def compute(self, op_input: Any, op_output: Any, context: Any) -> None:
        if self.image is None:
            self.image = LoadImage(image_only=True)(str(self.path))
            for volume in np.moveaxis(self.image.numpy(), 3, 0) if self.image.ndim == 4 else [self.image.numpy()]:
                check_values(self.path, volume)
        meta = dict(self.image.meta)
        array = self.image.numpy()
        if array.ndim == 4 and self.channels == 1:
            array = array[..., self.frame]
        self.frame += 1
        # "no_channel": the bundle's EnsureChannelFirstd must not take slices for channels
        meta |= {
            "spatial_shape": np.asarray(array.shape[:3]),
            "spacing": nib.affines.voxel_sizes(np.asarray(meta["affine"])),
            "original_channel_dim": "no_channel" if array.ndim == 3 else -1,
            "space": "RAS",
        }
        op_output.emit(Image(array, metadata=meta), "image")


class NiftiWriterOperator(Operator):
    """
    Write label maps as NIfTI: with the very header of the image where that was NIfTI, and by its affine otherwise.

    Named input:
        pred: an Image (D, H, W) of class indices, for each frame.

    Args:
        path: the file to write, when all frames have come.
        frames: number of frames to wait for.
        source: the NIfTI image, if there is one.
        channels: number of channels of the image; if there are several, its fourth axis holds no frames.
    """

    def __init__(
        self,
        fragment: Fragment,
        *args: Any,
        path: Path,
        frames: int = 1,
        source: Path | None = None,
        channels: int = 1,
        **kwargs: Any,
    ) -> None:
        self.path = path
        self.frames = frames
        self.source = source
        self.channels = channels
        self.seen: list[np.ndarray] = []
        super().__init__(fragment, *args, **kwargs)

    def setup(self, spec: OperatorSpec) -> None:
        spec.input("pred")

    def compute(self, op_input: Any, op_output: Any, context: Any) -> None:
        pred = op_input.receive("pred")
        self.seen.append(np.swapaxes(pred.asnumpy(), 0, 2).astype(np.uint8))
        if len(self.seen) < self.frames:
            return
        if self.source is None:
            image = nib.Nifti1Image(self.seen[0], np.asarray(pred.metadata()["original_affine"], dtype=float))
            image.header.set_xyzt_units("mm")
            image.set_qform(image.affine, code=1)
            image.set_sform(image.affine, code=1)
        else:
            image = nib.load(self.source)
        array = self.seen[0] if image.ndim == 3 or self.channels > 1 else np.stack(self.seen, axis=3)
        save_like(image, array, self.path, "dcl-monai segmentation")
