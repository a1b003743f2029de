"""Tests of the choice of examples and slices."""

from __future__ import annotations

import numpy as np
import pytest

from dcl_monai.check import inspect_datalist
from dcl_monai.check.gallery import choose, take_slice

from .conftest import SHAPE, inspect_item


def test_slice_with_most_foreground(make_item):
    label = np.zeros(SHAPE, np.uint8)
    label[1:3, 1:3, 0], label[1:6, 1:6, 2] = 1, 2
    assert take_slice(make_item("a", label), 3).place == ", slice 3 of 3"
    assert take_slice(make_item("a", label, annotated=[[1]]), 3).place == ", slice 1 of 3"


def test_middle_slice_where_nothing_is_drawn(make_item):
    assert take_slice(make_item("a", np.zeros(SHAPE, np.uint8)), 3).place == ", slice 2 of 3"


@pytest.mark.parametrize("thick", [0, 1, 2])
def test_slices_are_taken_across_the_thickest_direction(make_item, write_nifti, thick):
    item = make_item("a")
    affine = np.diag([5.0 if axis == thick else 1.0 + 0.1 * axis for axis in range(3)] + [1.0])
    for key in ("image", "label"):
        item[key] = write_nifti(f"{key}.nii.gz", np.arange(168).reshape(SHAPE).astype(np.int16) % 3, affine)
    chosen = take_slice(item, 3)
    assert chosen.place.endswith(f"of {SHAPE[thick]}")
    assert chosen.image.shape == tuple(size for axis, size in enumerate(SHAPE) if axis != thick)[::-1]
    first, second = (1.0 + 0.1 * axis for axis in range(3) if axis != thick)
    assert chosen.aspect == pytest.approx(second / first)


def test_seen_as_radiologists_do(make_item, write_nifti):
    """Of a file whose axes point right, front and up, the patient's front is above and the right side at the left."""
    item = make_item("a")
    pixels = np.zeros(SHAPE, np.float32)
    pixels[-1, -1, 1] = 1.0
    item["image"] = write_nifti("corner.nii.gz", pixels)
    assert take_slice(item, 3).image[0, 0] == 1.0


def test_image_of_two_dimensions(make_item, write_nifti):
    item = make_item("a")
    for key in ("image", "label"):
        item[key] = write_nifti(f"{key}.nii.gz", np.arange(56).reshape(8, 7).astype(np.int16) % 3)
    assert inspect_item(item).files.problems == ()
    assert take_slice(item, 3).image.shape == (7, 8)


def test_examples_of_different_subjects_and_annotations(datalist, make_item):
    datalist["training"] = [
        make_item("a", annotated=[[1]]),
        make_item("b", annotated=[[1]]),
        make_item("c", annotated=[[2]]),
        make_item("d", annotated=[]),
    ]
    datalist["validation"], datalist["test"] = [], []
    chosen = choose(inspect_datalist(datalist, progress=False))
    assert [record.case for record in chosen] == ["a", "c", "b", "d"]


def test_unreadable_images_are_no_examples(datalist, tmp_path):
    for item in datalist["training"]:
        item["label"] = str(tmp_path / "missing.nii.gz")
    chosen = choose(inspect_datalist(datalist, progress=False))
    assert [record.case for record in chosen] == ["val", "test"]
