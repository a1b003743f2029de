"""Tests of the check that runs before a training: every mistake is named with its file and its remedy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcl_monai.data import check_datalist
from dcl_monai.utils import DataError

CLASSES = ["background", "RV", "LV"]
SHAPE = (8, 7, 3)


@pytest.fixture
def datalist(write_nifti):
    """Three splits with one good pair each."""
    rng = np.random.default_rng(0)
    splits = {}
    for name in ("training", "validation", "test"):
        image = write_nifti(f"{name}.nii.gz", rng.normal(size=SHAPE).astype(np.float32))
        label = write_nifti(f"{name}_gt.nii.gz", rng.integers(0, 3, SHAPE).astype(np.uint8))
        splits[name] = [{"image": image, "label": label, "subject": name}]
    return {"classes": CLASSES, **splits}


def fails(datalist, **kwargs) -> str:
    with pytest.raises(DataError) as error:
        check_datalist(datalist, progress=False, **kwargs)
    assert "\n" not in str(error.value)
    return str(error.value)


class TestGoodData:
    def test_is_returned(self, datalist):
        assert check_datalist(datalist, progress=False) is datalist

    def test_no_progress_bar_without_a_terminal(self, datalist, capsys):
        check_datalist(datalist)
        captured = capsys.readouterr()
        assert captured.out == captured.err == ""

    def test_header_that_differs_by_rounding(self, datalist, write_nifti):
        affine = np.eye(4)
        affine[0, 3] = 1e-3
        datalist["test"][0]["label"] = write_nifti("other_gt.nii.gz", np.zeros(SHAPE, np.uint8), affine)
        assert check_datalist(datalist, progress=False) is datalist

    def test_only_the_splits_asked_for(self, datalist):
        Path(datalist["test"][0]["image"]).unlink()
        datalist["validation"] = []
        assert check_datalist(datalist, splits=["training"], progress=False) is datalist

    def test_classes_may_be_shown_by_different_items(self, datalist):
        item = datalist["training"][0]
        datalist["training"] = [item | {"annotated": [j]} for j in range(3)]
        assert check_datalist(datalist, progress=False) is datalist


@pytest.mark.parametrize("split", ["training", "validation", "test"])
class TestFiles:
    def test_empty(self, datalist, split):
        datalist[split] = []
        assert f"the {split} list is empty" in fails(datalist)

    @pytest.mark.parametrize("key", ["image", "label"])
    @pytest.mark.parametrize("damage", ["missing", "truncated", "text", "empty"])
    def test_unreadable(self, datalist, split, key, damage):
        path = Path(datalist[split][0][key])
        content = path.read_bytes()
        path.unlink()
        if damage != "missing":
            path.write_bytes({"truncated": content[: len(content) // 2], "text": b"not an image", "empty": b""}[damage])
        message = fails(datalist)
        assert message.startswith(f"{path}: cannot be read (")
        assert "()" not in message
        assert "Replace the file or take it off the list" in message

    def test_shape(self, datalist, split, write_nifti):
        item = datalist[split][0]
        item["label"] = write_nifti("other_gt.nii.gz", np.zeros((8, 7, 4), np.uint8))
        message = fails(datalist)
        for part in (item["label"], item["image"], "(8, 7, 4)", "(8, 7, 3)", "Resample"):
            assert part in message

    @pytest.mark.parametrize("change", ["origin", "spacing", "orientation"])
    def test_affine(self, datalist, split, write_nifti, change):
        affine = {
            "origin": np.array([[1, 0, 0, 0.5], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
            "spacing": np.diag([1, 1, 1.5, 1]),
            "orientation": np.diag([-1, 1, 1, 1]),
        }[change]
        item = datalist[split][0]
        item["label"] = write_nifti("other_gt.nii.gz", np.zeros(SHAPE, np.uint8), affine.astype(float))
        message = fails(datalist)
        assert item["label"] in message
        assert item["image"] in message
        assert f"by {2 if change == 'orientation' else 0.5}" in message
        assert "header" in message

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_not_finite(self, datalist, split, write_nifti, value):
        image = np.zeros(SHAPE, np.float32)
        image[1, 2, 0] = value
        datalist[split][0]["image"] = write_nifti("broken.nii.gz", image)
        message = fails(datalist)
        assert message.startswith(datalist[split][0]["image"])
        assert "not finite" in message
        assert "Replace" in message

    def test_label_value(self, datalist, split, write_nifti):
        label = np.zeros(SHAPE, np.int16)
        label[0, :4, 0] = 3
        datalist[split][0]["label"] = write_nifti("other_gt.nii.gz", label)
        message = fails(datalist)
        for part in (datalist[split][0]["label"], "[3] in 4 voxel(s)", "[0, 1, 2]", "class list"):
            assert part in message

    def test_image_in_place_of_a_label(self, datalist, split):
        item = datalist[split][0]
        item["label"] = item["image"]
        message = fails(datalist)
        assert item["image"] in message
        assert "whole numbers" in message


@pytest.mark.parametrize(
    ("annotated", "name"), [([[0, 1], [1]], "LV"), ([[0], [2]], "RV"), ([[1], [2]], "background"), ([[]], "background")]
)
def test_class_that_nobody_annotated(datalist, annotated, name):
    item = datalist["training"][0]
    datalist["training"] = [item | {"annotated": shown} for shown in annotated]
    message = fails(datalist)
    assert f"class '{name}' is annotated in no training image" in message
    assert "add images that show it" in message
