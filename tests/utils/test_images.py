"""The one check of an image: headers that lie are refused before anything is read, and values that say nothing."""

from __future__ import annotations

import gzip
import os
import struct
import tracemalloc

import nibabel as nib
import numpy as np
import pytest

from dcl_monai.utils import DataError
from dcl_monai.utils.images import check_values, open_image

PIXDIM = [1.8, 1.8, -1]


def write(path, change=lambda header: None, array=None):
    array = np.random.default_rng(0).integers(0, 99, (20, 18, 4)).astype(np.int16) if array is None else array
    content = bytearray(nib.Nifti1Image(array, np.diag([2, 2, 8, 1])).to_bytes())
    change(content)
    path.write_bytes(gzip.compress(bytes(content)) if path.suffix == ".gz" else bytes(content))
    return path


def dims(*sizes):
    return lambda header: struct.pack_into(f"<{len(sizes) + 1}h", header, 40, len(sizes), *sizes)


def pixdim(*sizes):
    return lambda header: struct.pack_into("<3f", header, 80, *sizes)


def sform(*row):
    """Another first row of the affine."""

    def change(header):
        struct.pack_into("<h", header, 254, 1)
        struct.pack_into("<12f", header, 280, *row, 0, 0, 2, 0, 0, 0, 0, 8, 0)

    return change


def huge_grid(header):
    """20 x 18 x 4 voxels that become 6 GB on a grid of 0.1 mm."""
    pixdim(90, 90, 20)(header)


def noted(size):
    """Put a note of that size between header and voxels."""

    def change(content):
        struct.pack_into("<f", content, 108, 352 + size)
        content[348:352] = b"\x01\x00\x00\x00"
        content[352:352] = struct.pack("<ii", size, 6) + bytes(size - 8)

    return change


both = pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])


@both
def test_good(tmp_path, name):
    assert open_image(write(tmp_path / name), PIXDIM).shape == (20, 18, 4)


@both
@pytest.mark.parametrize(
    ("change", "word"),
    [
        (dims(30000, 30000, 30000), "exceed the limit of 268435456"),
        (dims(32767, 32767, 32767, 32767), "exceed the limit"),
        (dims(400, 400, 1000), "shorter than its header says"),
        (dims(20, 18, 5), "shorter than its header says"),
        (dims(20, -18, 4), "cannot be read|has shape"),
        (dims(20, 18), "has shape"),
        (dims(20, 18, 2, 2, 1), "has shape"),
        (pixdim(2000, 2000, 8000), "2000 x 2000 x 8000 mm. If these are micrometres, divide them by 1000"),
        (pixdim(0.002, 0.002, 0.008), "0.002 x 0.002 x 0.008 mm. If these are metres, multiply them by 1000"),
        (pixdim(0.012, 0.012, 8), "measures only"),
        (huge_grid, "on the network's grid"),
        (pixdim(float("nan"), 2, 8), "voxel size"),
        (sform(float("nan"), 0, 0), "an invalid affine, nan 0 0 0, 0 2 0 0, 0 0 8 0"),
        (sform(0, 2, 0), "an invalid affine, 0 2 0 0, 0 2 0 0, 0 0 8 0. Correct"),
        (noted(2**25), "bytes between header and voxels"),
        (lambda header: struct.pack_into("<f", header, 108, float("nan")), "cannot be read"),
        (lambda header: struct.pack_into("<b", header, 123, 3), "in micron"),
        (lambda header: struct.pack_into("<hh", header, 70, 32, 64), "type complex64"),
        (lambda header: header.__delitem__(slice(600, None)), "shorter"),
        (lambda header: header.__setitem__(slice(0, 348), bytes(348)), "cannot be read"),
    ],
)
def test_refused_without_much_memory(tmp_path, name, change, word):
    path = write(tmp_path / name, change)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=word) as raised:
            open_image(path, [0.1, 0.1, 0.1] if change is huge_grid else PIXDIM)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


@both
def test_notes_in_the_header_are_fine(tmp_path, name):
    assert open_image(write(tmp_path / name, noted(4096)), PIXDIM).shape == (20, 18, 4)


@both
def test_pipe(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="no regular file"):
        open_image(tmp_path / name, PIXDIM)


@both
def test_nifti2_that_lies(tmp_path, name):
    content = bytearray(nib.Nifti2Image(np.zeros((20, 18, 4), np.int16), np.eye(4)).to_bytes())
    struct.pack_into("<4q", content, 16, 3, 10**5, 10**5, 10**3)
    path = tmp_path / name
    path.write_bytes(gzip.compress(bytes(content)) if path.suffix == ".gz" else bytes(content))
    with pytest.raises(DataError, match="100000 x 100000 x 1000 voxels"):
        open_image(path, PIXDIM)


def test_damaged_gzip(tmp_path):
    path = write(tmp_path / "a.nii.gz")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="shorter"):
        open_image(path, PIXDIM)


def test_every_flipped_bit_of_the_voxels_is_found(tmp_path):
    """By gzip's own checksum: 48 of 120 came through where nobody looked at it."""
    path = write(tmp_path / "a.nii.gz")
    good = path.read_bytes()
    expected = gzip.decompress(good)
    for place in np.random.default_rng(0).integers(10, len(good), 120):
        content = bytearray(good)
        content[place] ^= 1 << (place % 8)
        path.write_bytes(content)
        try:
            open_image(path, PIXDIM)
        except DataError:
            continue
        assert gzip.decompress(content) == expected


def test_more_than_the_header_says(tmp_path):
    """The checksum would never be met."""
    path = tmp_path / "a.nii.gz"
    content = nib.Nifti1Image(np.zeros((20, 18, 4), np.int16), np.diag([2, 2, 8, 1])).to_bytes()
    path.write_bytes(gzip.compress(content + bytes(2**22)))
    with pytest.raises(DataError, match="damaged"):
        open_image(path, PIXDIM)


def test_capital_letters(tmp_path):
    path = tmp_path / "A.NII.GZ"
    path.write_bytes(write(tmp_path / "a.nii.gz").read_bytes())
    assert open_image(path, PIXDIM).shape == (20, 18, 4)


NOISE = np.random.default_rng(0).normal(500, 100, (20, 18, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (np.where(NOISE[0, 0, 0] == NOISE, np.nan, NOISE), r"holds 1 value\(s\) that are not finite"),
        (np.where(NOISE[0, 0, 0] == NOISE, -np.inf, NOISE), "not finite"),
        (NOISE * 1e34, "too large to compute with"),
        (np.zeros((20, 18, 4)), "is nearly constant: all but a few voxels have the value 0"),
        (np.eye(60)[:, :, None] == 1.5, "is nearly constant"),
        (1000 + NOISE * 1e-5, "is nearly constant"),
    ],
    ids=["nan", "inf", "large", "zero", "bool", "nearly"],
)
def test_values_that_say_nothing(values, word):
    with pytest.raises(DataError, match=f"^here: .*{word}"):
        check_values("here", np.asarray(values, dtype=np.float32))


def test_values_that_say_something():
    """Also a small object on black, and a little contrast on a large offset."""
    ball = np.zeros((40, 40, 4), np.float32)
    ball[20:24, 20:24] = 1
    for values in (NOISE, ball, 32768 + NOISE / 10):
        check_values("here", values)
