"""Tests of converting ACDC."""

from __future__ import annotations

import pytest

from dcl_monai.datalist.convert import convert_acdc
from dcl_monai.datalist.load import load_datalist

ORIGINAL = "ED: 1\nES: 12\nGroup: DCM\nHeight: 184.0\nNbFrame: 30\nWeight: 95.0\n"
REDUCED = "ED: 1\nES: 12\nGroup: DCM\n"


@pytest.fixture
def add_patients(tmp_path, add):
    def write(folder: str, info: str, numbers=range(1, 6)) -> None:
        for number in numbers:
            name = f"patient{number:03d}"
            for frame in ("01", "12"):
                add(f"{folder}/{name}/{name}_frame{frame}.nii.gz")
                add(f"{folder}/{name}/{name}_frame{frame}_gt.nii.gz", [0, 1, 2, 3])
            if info is ORIGINAL:
                add(f"{folder}/{name}/{name}_4d.nii.gz")
            (tmp_path / folder / name / "Info.cfg").write_text(info)

    return write


@pytest.mark.parametrize("info", [ORIGINAL, REDUCED], ids=["original", "reduced"])
def test_both_forms(tmp_path, add_patients, meaning, info):
    add_patients("acdc", info)
    notes: list[str] = []
    document = convert_acdc(tmp_path / "acdc", note=notes.append)
    assert notes == []
    assert document["split"] == [60, 20, 20]
    assert document["unions"] == {"whole heart": ["RV", "MYO", "LV"]}
    datalist = load_datalist(document)
    assert [len(datalist[split]) for split in ("training", "validation", "test")] == [6, 2, 2]
    assert {item["phase"] for item in datalist["training"]} == {"ED", "ES"}
    assert meaning(document, [0, 1, 2, 3]) == [{"background"}, {"RV"}, {"MYO"}, {"LV"}]


def test_training_of_the_release_is_used(tmp_path, add_patients):
    add_patients("database/training", ORIGINAL)
    add_patients("database/testing", ORIGINAL, [101, 102])
    notes: list[str] = []
    document = convert_acdc(tmp_path / "database", note=notes.append)
    assert document["datasets"]["ACDC"]["folder"] == str(tmp_path / "database" / "training")
    assert len(document["datasets"]["ACDC"]["training"]) == 10
    assert len(notes) == 1
    assert str(tmp_path / "database" / "training") in notes[0]


def test_refusals(tmp_path, add_patients, refuse):
    assert refuse("acdc", tmp_path / "nowhere").startswith(f"{tmp_path / 'nowhere'}: no such folder.")
    (tmp_path / "patient001").touch()  # a file, not a folder
    (tmp_path / "training").mkdir()
    assert "no patientNNN folder" in refuse("acdc", tmp_path)
    add_patients("acdc", REDUCED, [7])
    gone = tmp_path / "acdc/patient007/patient007_frame12_gt.nii.gz"
    gone.unlink()
    assert refuse("acdc", tmp_path / "acdc").startswith(f"{gone}: no such file")
