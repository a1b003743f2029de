from __future__ import annotations

import numpy as np
import pytest

from dcl_monai.inferers.volumes import ejection_fractions, volumes_ml


def test_volumes():
    labels = np.zeros((2, 3, 1, 2), np.uint8)
    labels[0, :, 0, 0] = 2
    labels[0, 0, 0, 1] = 1
    assert volumes_ml(labels, ["background", "RV", "LV"], 0.5) == {"RV": [0.0, 0.5], "LV": [1.5, 0.0]}


def entry(**volumes):
    return {"volumes_ml": {name: value if isinstance(value, list) else [value] for name, value in volumes.items()}}


@pytest.fixture
def patient(tmp_path):
    (tmp_path / "patient001").mkdir()
    (tmp_path / "patient001" / "Info.cfg").write_text("ED: 1\nES: 12\nGroup: DCM\n")
    return tmp_path


def test_frames_of_an_acdc_patient(patient):
    files = {
        "patient001/patient001_frame01.nii.gz": entry(LV=100.0, RV=80.0, MYO=90.0),
        "patient001/patient001_frame12.nii.gz": entry(LV=40.0, RV=60.0, MYO=95.0),
        "patient001/patient001_frame05.nii.gz": entry(LV=10.0, RV=60.0, MYO=95.0),
    }
    assert ejection_fractions(files, patient) == [
        {
            "ED": {"file": "patient001/patient001_frame01.nii.gz"},
            "ES": {"file": "patient001/patient001_frame12.nii.gz"},
            "ejection_fraction": {"LV": 0.6, "RV": 0.25},
            "phases": "frames named in Info.cfg",
        }
    ]


def test_one_phase_alone_tells_nothing(patient):
    assert ejection_fractions({"patient001/patient001_frame01.nii.gz": entry(LV=100.0)}, patient) == []


def test_cine_of_an_acdc_patient(patient):
    """Info.cfg is believed, not the largest and smallest volume."""
    volumes = [100.0, 120.0, *[70.0] * 9, 50.0, 20.0]
    (pair,) = ejection_fractions({"patient001/patient001_4d.nii.gz": entry(LV=volumes)}, patient)
    assert (pair["ED"]["frame"], pair["ES"]["frame"]) == (1, 12)
    assert pair["ejection_fraction"] == {"LV": 0.5}
    assert "Info.cfg" in pair["phases"]


def test_cine_that_is_shorter_than_info_says(patient):
    (pair,) = ejection_fractions({"patient001/x.nii.gz": entry(LV=[50.0, 100.0, 25.0], RV=[1.0, 8.0, 2.0])}, patient)
    assert (pair["ED"]["frame"], pair["ES"]["frame"]) == (2, 3)
    assert pair["ejection_fraction"] == {"LV": 0.75, "RV": 0.75}
    assert "largest and the smallest" in pair["phases"]


def test_nothing_found_is_not_divided_by(tmp_path):
    (pair,) = ejection_fractions({"x.nii": entry(LV=[0.0, 0.0])}, tmp_path)
    assert pair["ejection_fraction"] == {"LV": None}


def test_no_ventricle(tmp_path):
    assert ejection_fractions({"x.nii": entry(liver=[3.0, 2.0])}, tmp_path) == []
