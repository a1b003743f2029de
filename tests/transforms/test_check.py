"""The check of an image, as every door calls it: the same files are refused with the same words."""

from __future__ import annotations

import re
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from monai.bundle import ConfigParser
from monai.data import MetaTensor

from dcl_monai.check.reading import read_files
from dcl_monai.transforms import CheckImage
from dcl_monai.transforms.check import check_file
from dcl_monai.utils import DataError
from dcl_monai.utils.errors import find_user_error

CONFIG = Path(__file__).parents[2] / "bundles" / "acdc" / "configs" / "inference.json"
NOISE = np.random.default_rng(0).normal(500, 100, (150, 150, 4)).astype(np.float32)


def with_value(value: float) -> np.ndarray:
    """One voxel in the corner, outside of the network's crop."""
    array = NOISE.copy()
    array[0, 0, 0] = value
    return array


def image(array: np.ndarray = NOISE, spacing: tuple[float, ...] = (1.5, 1.5, 8.0)) -> bytes:
    return nib.Nifti1Image(array, np.diag([*spacing, 1.0])).to_bytes()


def nan_pixdim() -> bytes:
    content = bytearray(image())
    struct.pack_into("<3f", content, 80, float("nan"), 2, 8)
    return bytes(content)


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "nan": (lambda: image(with_value(np.nan)), r"holds 1 value\(s\) that are not finite"),
    "inf": (lambda: image(with_value(np.inf)), "not finite"),
    "blank": (lambda: image(np.zeros_like(NOISE)), "is nearly constant"),
    "metres": (lambda: image(spacing=(0.0015, 0.0015, 0.008)), "If these are metres, multiply them by 1000"),
    "micrometres": (lambda: image(spacing=(1500, 1500, 8000)), "If these are micrometres, divide them by 1000"),
    "pixdim": (nan_pixdim, "voxel size of nan x 2 x 8 mm"),
    "short": (lambda: image()[:5000], "shorter than its header says"),
}


@pytest.fixture(scope="module")
def preprocessing() -> Callable:
    """As folder inference and MONAI Label take it from a bundle."""
    parser = ConfigParser()
    parser.read_config(str(CONFIG))
    parser.update({"model_file": "none"})
    return parser.get_parsed_content("preprocessing")


@pytest.mark.parametrize("name", BAD)
def test_every_door_says_the_same(preprocessing, tmp_path, name):
    content, word = BAD[name]
    path = tmp_path / f"{name}.nii"
    path.write_bytes(content())
    with pytest.raises(RuntimeError) as raised:
        preprocessing({"image": str(path)})
    served = str(find_user_error(raised.value))
    (problem,) = read_files(({"image": str(path), "subject": "1"}, 3)).problems
    assert (problem.severity, problem.message) == ("error", served)
    assert re.match(f"{path}: .*{word}", served)


def test_a_good_image_passes(preprocessing, tmp_path):
    path = tmp_path / "good.nii"
    path.write_bytes(image())
    assert preprocessing({"image": str(path)})["image"].isfinite().all()
    assert not read_files(({"image": str(path), "subject": "1"}, 3)).problems


def test_size_on_the_grid_is_known_before_anything_is_allocated(preprocessing, tmp_path):
    """600 x 600 x 8 voxels of 20 mm held a server for 74 s and 12 GB."""
    path = tmp_path / "large.nii.gz"
    nib.save(nib.Nifti1Image(np.zeros((600, 600, 8), np.uint8), np.diag([20, 20, 8, 1])), path)
    tracemalloc.start()
    try:
        with pytest.raises(RuntimeError) as raised:
            preprocessing({"image": str(path)})
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert "12000 x 12000 x 64 mm" in str(find_user_error(raised.value))


def test_a_damaged_label_is_found(tmp_path):
    """By the checksum of gzip, which readers do not reach."""
    path = tmp_path / "label.nii.gz"
    nib.save(nib.Nifti1Image((NOISE > 600).astype(np.uint8), np.diag([1.5, 1.5, 8.0, 1.0])), path)
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(content)
    (tmp_path / "image.nii").write_bytes(image())
    item = {"image": str(tmp_path / "image.nii"), "label": str(path), "subject": "1", "values": {0: [0], 1: [1]}}
    (problem,) = read_files((item, 2)).problems
    assert problem.message.startswith(f"{path}: is damaged")


def test_header_of_another_format(tmp_path):
    path = tmp_path / "a.nrrd"
    fields = ("type: short", "dimension: 3", "sizes: 30000 30000 9000", "endian: little", "encoding: raw")
    path.write_bytes("\n".join(("NRRD0004", *fields, "", "")).encode() + bytes(100))
    with pytest.raises(DataError, match="30000 x 30000 x 9000 voxels"):
        check_file(path)


def test_loaded_image():
    """Where there is no file, as in a program of one's own: geometry and values are looked at."""
    loaded = MetaTensor(torch.from_numpy(NOISE)[None], affine=torch.diag(torch.tensor([1.5, 1.5, 8.0, 1.0])))
    assert CheckImage([1.8, 1.8, -1])(loaded) is loaded
    with pytest.raises(DataError, match="on the network's grid"):
        CheckImage([0.01, 0.01, -1])(loaded)
    with pytest.raises(DataError, match="not finite"):
        CheckImage()(torch.from_numpy(with_value(np.nan))[None])
