"""The MR sequences of the short-axis stacks."""

from __future__ import annotations

from typing import NamedTuple

from ..draws import Range


class Sequence(NamedTuple):
    """What a sequence fixes: ranges of the stack's geometry, of the contrast and of the image quality."""

    pixel: Range  # in-plane voxel size in mm
    thickness: dict[float, float]  # slice distance in mm and its probability
    depth: tuple[int, int]  # limits of the number of slices
    first_slice: Range  # place of the first slice below the base, in slices
    field_of_view: Range  # along W, in mm
    matrix: tuple[int, int]  # limits of the number of voxels along W and H
    offset: float  # largest distance in mm of the heart from the image's centre along W and H
    myocardium: Range  # signal relative to blood
    blur: Range  # standard deviation of the in-plane point spread in voxels
    noise: Range  # standard deviation of the noise of each complex channel, relative to blood
    gain: Range  # image value of blood


CINE = Sequence(
    pixel=(1.3, 1.9),
    thickness={5.0: 0.04, 6.0: 0.06, 7.0: 0.1, 8.0: 0.25, 9.0: 0.1, 10.0: 0.45},
    depth=(6, 11),
    first_slice=(0.1, 1.3),
    field_of_view=(260, 345),
    matrix=(150, 230),
    offset=25,
    myocardium=(0.28, 0.52),
    blur=(0.5, 0.9),
    noise=(0.02, 0.055),
    gain=(90, 320),
)
"""Balanced steady-state free precession: blood bright, all muscle alike."""

LATE_ENHANCEMENT = Sequence(
    pixel=(0.85, 1.0),
    thickness={5.0: 1.0},
    depth=(10, 18),
    first_slice=(-1.2, 1.2),
    field_of_view=(200, 240),
    matrix=(210, 260),
    offset=12,
    myocardium=(0.05, 0.25),
    blur=(0.8, 1.3),
    noise=(0.06, 0.12),
    gain=(60, 160),
)
"""Inversion recovery after gadolinium: healthy myocardium nulled, blood and scars bright, little signal to noise."""
