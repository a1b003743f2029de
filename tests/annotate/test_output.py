"""Tests of the pictures of the pages."""

from __future__ import annotations

import base64
import io

import nibabel as nib
import numpy as np
import pytest
from PIL import Image

from dcl_monai.annotate.output import draw_slice


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("codes", ["LPS", "RAS", "SRA", "PIR"])
def test_pictures_are_as_radiologists_look_at_them(codes, axis):
    grey = np.zeros((20, 20, 20), np.float32)  # the axes go left, back, up
    grey[:8, :8, 12:] = 1  # right, in front, at the head
    source = nib.Nifti1Image(grey, np.diag([-1.0, -1.0, 1.0, 1.0]))
    turn = nib.orientations.ornt_transform(nib.io_orientation(source.affine), nib.orientations.axcodes2ornt(codes))
    turned = source.as_reoriented(turn)
    voxel = np.linalg.inv(turned.affine) @ source.affine @ [4, 4, 14, 1]
    content = draw_slice(turned.get_fdata(), {}, voxel[:3].round().astype(int), int(turn[axis, 0]), turned.affine)
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(content))).convert("L"), float)[40:]
    bright, dark = (np.argwhere(pixels[:, 20:-20] == value).mean(0) for value in (255, 0))
    assert (bright < dark - 20).all()  # above is the front or the head, on the left is the right or the front
