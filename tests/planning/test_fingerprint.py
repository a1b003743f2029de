"""Fingerprints of files that the tests write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from dcl_monai.check import find_problems, inspect_datalist
from dcl_monai.datalist import load_datalist
from dcl_monai.planning import take_fingerprint
from dcl_monai.planning.fingerprint import SAMPLES, reach, sample_files
from dcl_monai.utils import DataError

SHAPE = (12, 10, 8)


@pytest.fixture
def describe(tmp_path, write_nifti):
    """Write images whose grey value is 100 in class 1, 200 in class 2 and 0 outside, and describe them."""

    def write(values: dict[int, str] | None = None, shape=SHAPE, subjects=8, **entry: Any) -> Path:
        rng = np.random.default_rng(0)
        for k in range(subjects):
            label = np.zeros(shape, np.uint8)
            label[2:5, 3:6], label[6:9, 3:6] = 1, 2
            image = 100.0 * label + rng.uniform(0, 10, shape) - (100 if k == 0 else 0) * (label == 0)
            write_nifti(f"data/s{k}.nii.gz", image.astype(np.float32), np.diag([1.0, 2.0, 3.0, 1.0]))
            write_nifti(f"data/s{k}_gt.nii.gz", label, np.diag([1.0, 2.0, 3.0, 1.0]))
        named = values or {0: "background", 1: "RV", 2: "LV"}
        dataset = {"folder": "data", "images": "{subject}.nii.gz", "labels": "{subject}_gt.nii.gz", "values": named}
        content = {"classes": ["background", "RV", "LV"], "split": [6, 1, 1], "datasets": {"all": dataset | entry}}
        path = tmp_path / "my.yaml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    return write


def test_geometry(describe):
    found = take_fingerprint(load_datalist(describe()), progress=False)
    assert found.classes == ("background", "RV", "LV")
    assert found.shapes.tolist() == [list(SHAPE)] * 6  # training images only
    np.testing.assert_allclose(found.spacings, [[1.0, 2.0, 3.0]] * 6)
    assert found.reaches.tolist() == [[4.0, 4.0, 12.0]] * 6  # 2..9 of 12 voxels, 3..6 of 10, 0..8 of 8
    assert found.looks_like_ct == [False]


def test_grey_values_of_all_structures(describe):
    found = take_fingerprint(load_datalist(describe()), progress=False)
    assert found.foreground.shape == (1, 6 * SAMPLES)
    assert found.statistics()["mean"] == pytest.approx(155, abs=1)
    assert 100 <= found.statistics()["percentile_00_5"] < 105
    assert 205 < found.statistics()["percentile_99_5"] <= 210


@pytest.mark.parametrize(("shown", "low", "high"), [("RV", 100, 110), ("LV", 200, 210)])
def test_grey_values_of_what_is_annotated_alone(describe, shown, low, high):
    """The other structure is there, but nobody said so: its voxels are not looked at."""
    item = load_datalist(describe(annotated=[shown]))["training"][0]
    values = sample_files((item, 3)).foreground
    assert low <= values.min()
    assert values.max() <= high


def test_unions_count_and_unlabelled_voxels_do_not(describe):
    item = load_datalist(describe({0: "unlabelled", 1: "unlabelled", 2: ["RV", "LV"]}))["training"][0]
    assert sample_files((item, 3)).foreground.min() >= 200


def test_reach():
    inside = np.zeros((10, 7), dtype=bool)
    inside[9, 3] = True
    assert reach(inside, (2.0, 1.0)) == (10.0, 0.5)


class TestRefusals:
    def test_in_the_words_of_check(self, describe, write_nifti):
        path = describe()
        write_nifti("data/s3_gt.nii.gz", np.full(SHAPE, 9, np.uint8), np.diag([1.0, 2.0, 3.0, 1.0]))
        datalist = load_datalist(path)
        told = find_problems(datalist, inspect_datalist(datalist, progress=False))[0].message
        with pytest.raises(DataError) as caught:
            take_fingerprint(datalist, progress=False)
        assert str(caught.value).startswith(told)

    def test_class_of_a_single_subject(self, describe):
        path = describe(annotated={"*": ["RV"]})
        content = yaml.safe_load(path.read_text())
        names = [item["subject"] for item in load_datalist(path)["training"]]
        content["datasets"]["all"]["annotated"] = {names[0]: ["LV"], "*": ["RV"]}
        path.write_text(yaml.safe_dump(content))
        with pytest.raises(DataError, match=r"LV.*seen in 1 training subject\(s\).*needs two"):
            take_fingerprint(load_datalist(path), progress=False)

    def test_flat_images_are_volumes_of_one_slice(self, describe):
        found = take_fingerprint(load_datalist(describe(shape=(12, 10))), progress=False)
        assert found.shapes.tolist() == [[12, 10, 1]] * 6
