"""Tests of the data set in the layout of ACDC."""

from __future__ import annotations

import nibabel as nib
import numpy as np

from dcl_monai.synthetic import MARKER_NAME, write_synthetic_acdc
from dcl_monai.synthetic.short_axis import GROUPS, PHASES


def test_layout(tmp_path):
    write_synthetic_acdc(tmp_path, num_subjects=6, seed=3, progress=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"patient00{i}" for i in range(1, 7)] + [MARKER_NAME]
    groups = []
    for folder in sorted(tmp_path.glob("patient*")):
        lines = (folder / "Info.cfg").read_text().splitlines()
        info = dict(line.split(": ") for line in lines)
        assert list(info) == ["ED", "ES", "Group", "Height", "NbFrame", "Weight"]
        assert int(info["ED"]) == 1 < int(info["ES"]) <= int(info["NbFrame"])
        assert 140 <= float(info["Height"]) <= 205
        assert 30 <= float(info["Weight"]) <= 170
        groups.append(info["Group"])
        expected = {"Info.cfg"}
        for phase in PHASES:
            stem = f"{folder.name}_frame{int(info[phase]):02d}"
            expected |= {f"{stem}.nii.gz", f"{stem}_gt.nii.gz"}
            image, target = nib.load(folder / f"{stem}.nii.gz"), nib.load(folder / f"{stem}_gt.nii.gz")
            assert image.get_data_dtype() == np.int16
            assert target.get_data_dtype() == np.uint8
            assert image.shape == target.shape
            np.testing.assert_array_equal(image.affine, target.affine)
            zooms = image.header.get_zooms()
            np.testing.assert_allclose(image.affine, np.diag([-zooms[0], -zooms[1], zooms[2], 1]), rtol=1e-6)
            np.testing.assert_allclose(image.get_qform(), image.get_sform(), rtol=1e-6)
            assert image.header.get_xyzt_units()[0] == "mm"
            assert image.header["qform_code"] > 0
            assert image.header["sform_code"] > 0
        assert {path.name for path in folder.iterdir()} == expected
    assert groups == [*GROUPS, GROUPS[0]]
