"""Headers that lie are refused before anything is read."""

from __future__ import annotations

import gzip
import struct
import tracemalloc

import nibabel as nib
import numpy as np
import pytest

from dcl_monai.inferers.geometry import open_image
from dcl_monai.utils import DataError

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


both = pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])


@both
def test_good(tmp_path, name):
    assert open_image(write(tmp_path / name), PIXDIM).shape == (20, 18, 4)


@both
@pytest.mark.parametrize(
    ("change", "word"),
    [
        (dims(30000, 30000, 30000), "more than the 268435456"),
        (dims(32767, 32767, 32767, 32767), "more than the"),
        (dims(400, 400, 1000), "shorter than its header says"),
        (dims(20, 18, 5), "shorter than its header says"),
        (dims(20, -18, 4), "cannot be read|has shape"),
        (dims(20, 18), "has shape"),
        (dims(20, 18, 2, 2, 1), "has shape"),
        (pixdim(1e7, 1e7, 8), "more than the"),
        (pixdim(1e-4, 1e-4, 8), "mm large"),
        (pixdim(float("nan"), 2, 8), "voxel size"),
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
            open_image(path, PIXDIM)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


def test_damaged_gzip(tmp_path):
    path = write(tmp_path / "a.nii.gz")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="shorter"):
        open_image(path, PIXDIM)
