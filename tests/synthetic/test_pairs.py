"""Tests of the data sets of one image and one label map per subject: MSCMR and MM-WHS."""

from __future__ import annotations

import nibabel as nib
import numpy as np
import pytest

from dcl_monai.synthetic import MARKER_NAME, short_axis, whole_heart, write_synthetic_mmwhs, write_synthetic_mscmr

MSCMR = write_synthetic_mscmr, short_axis.LABELS, "subject{}_DE.nii.gz", "subject{}_DE_manual.nii.gz", 1
MMWHS = write_synthetic_mmwhs, whole_heart.LABELS, "mr_train_{}_image.nii.gz", "mr_train_{}_label.nii.gz", 1001
VALUES = {"LV": 500, "RV": 600}


@pytest.mark.parametrize(
    ("write", "labels", "image_name", "label_name", "first", "values"),
    [(*MSCMR, VALUES | {"MYO": 200}), (*MMWHS, VALUES | {"MYO": 205, "LA": 420, "RA": 550, "AO": 820, "PA": 850})],
    ids=["mscmr", "mmwhs"],
)
def test_layout(tmp_path, write, labels, image_name, label_name, first, values):
    write(tmp_path, num_subjects=2, seed=3, progress=False)
    names = {name.format(first + i) for name in (image_name, label_name) for i in range(2)}
    assert {path.name for path in tmp_path.iterdir()} == names | {MARKER_NAME}
    assert set(labels) == set(values)
    for i in range(2):
        image, target = (nib.load(tmp_path / name.format(first + i)) for name in (image_name, label_name))
        assert image.get_data_dtype() == target.get_data_dtype() == np.int16
        assert image.shape == target.shape
        np.testing.assert_array_equal(image.affine, target.affine)
        assert nib.aff2axcodes(image.affine) == ("L", "P", "S")
        found = np.unique(np.asarray(target.dataobj))
        np.testing.assert_array_equal(found, [0, *sorted(values.values())])


def test_label_values_name_their_structures(tmp_path):
    write_synthetic_mscmr(tmp_path / "mscmr", num_subjects=1, progress=False)
    target = np.asarray(nib.load(tmp_path / "mscmr" / "subject1_DE_manual.nii.gz").dataobj)
    middle = target[:, :, target.shape[2] // 2]
    cavity, right = (np.argwhere(middle == value).mean(0) for value in (500, 600))
    wall = np.argwhere(middle == 200)
    assert (wall.min(0) < np.argwhere(middle == 500).min(0)).all(), "the wall must enclose the cavity"
    assert right[0] < cavity[0], "the RV must lie in front"
    write_synthetic_mmwhs(tmp_path / "mmwhs", num_subjects=1, progress=False)
    target = np.asarray(nib.load(tmp_path / "mmwhs" / "mr_train_1001_label.nii.gz").dataobj)
    order = sorted((205, 420, 500, 550, 600, 820, 850), key=lambda value: np.argwhere(target == value)[:, 0].mean())
    assert order[0] == 550, "the right atrium must be the rightmost structure"
    assert set(order[-2:]) == {205, 500}, "the left ventricle must be the leftmost one"
