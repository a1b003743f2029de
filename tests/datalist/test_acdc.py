"""Tests of reading ACDC's layout."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from helpers import refusal

from dcl_monai.datalist import ACDC_CLASSES, acdc_items

ORIGINAL = "ED: {ed}\nES: {es}\nGroup: DCM\nHeight: 184.0\nNbFrame: 30\nWeight: 95.0\n"
REDUCED = "ED: {ed}\nES: {es}\n"


def add_patient(root: Path, name: str, ed: int = 1, es: int = 12, info: str = ORIGINAL, extra: bool = False) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "Info.cfg").write_text(info.format(ed=ed, es=es))
    for frame in (ed, es):
        for suffix in ("", "_gt"):
            (folder / f"{name}_frame{frame:02d}{suffix}.nii.gz").touch()
    if extra:
        (folder / f"{name}_4d.nii.gz").touch()
        (folder / "MANDATORY_CITATION.md").touch()
    return folder


fails = partial(refusal, acdc_items)


def test_classes():
    assert ACDC_CLASSES == ("background", "RV", "MYO", "LV")


@pytest.mark.parametrize(
    ("info", "group", "extra"), [(ORIGINAL, "DCM", True), (REDUCED, "", False)], ids=["original", "reduced"]
)
@pytest.mark.parametrize("kind", [str, Path])
def test_items(tmp_path, info, group, extra, kind):
    add_patient(tmp_path, "patient101", ed=1, es=9, info=info, extra=extra)
    add_patient(tmp_path, "patient002", ed=4, es=12, info=info, extra=extra)
    (tmp_path / "patient_notes").mkdir()
    (tmp_path / "patient003.txt").touch()
    assert acdc_items(kind(tmp_path)) == [
        {
            "image": str(tmp_path / name / f"{name}_frame{frame}.nii.gz"),
            "label": str(tmp_path / name / f"{name}_frame{frame}_gt.nii.gz"),
            "subject": name,
            "phase": phase,
            "group": group,
        }
        for name, phase, frame in [
            ("patient002", "ED", "04"),
            ("patient002", "ES", "12"),
            ("patient101", "ED", "01"),
            ("patient101", "ES", "09"),
        ]
    ]


@pytest.mark.parametrize(
    "text", ["ES:12\r\nED:1\r\n", "  ED :  01\n\n# note: none\nES: 12", "Group: NOR\nES: 12\nED: 1\n"]
)
def test_info_is_read_leniently(tmp_path, text):
    folder = add_patient(tmp_path, "patient001")
    (folder / "Info.cfg").write_bytes(text.encode())
    assert [Path(item["image"]).name for item in acdc_items(tmp_path)] == [
        "patient001_frame01.nii.gz",
        "patient001_frame12.nii.gz",
    ]


class TestErrors:
    def test_missing_folder(self, tmp_path):
        message = fails(tmp_path / "nowhere")
        assert str(tmp_path / "nowhere") in message
        assert "--dataset_dir" in message

    def test_file_instead_of_folder(self, tmp_path):
        (tmp_path / "file").touch()
        assert str(tmp_path / "file") in fails(tmp_path / "file")

    def test_no_patients(self, tmp_path):
        (tmp_path / "training").mkdir()
        message = fails(tmp_path)
        assert str(tmp_path) in message
        assert "--dataset_dir" in message

    def test_missing_info(self, tmp_path):
        folder = add_patient(tmp_path, "patient001")
        (folder / "Info.cfg").unlink()
        assert str(folder / "Info.cfg") in fails(tmp_path)

    @pytest.mark.parametrize(
        ("text", "phase"), [("ES: 12\n", "ED"), ("ED: 1\n", "ES"), ("ED: one\nES: 12\n", "ED"), ("ED:\nES: 12\n", "ED")]
    )
    def test_missing_frame(self, tmp_path, text, phase):
        folder = add_patient(tmp_path, "patient001")
        (folder / "Info.cfg").write_text(text)
        message = fails(tmp_path)
        assert str(folder / "Info.cfg") in message
        assert f"'{phase}: <frame number>'" in message
        assert "add it or remove the patient" in message

    @pytest.mark.parametrize("name", ["frame01.nii.gz", "frame12.nii.gz", "frame01_gt.nii.gz", "frame12_gt.nii.gz"])
    def test_missing_file(self, tmp_path, name):
        add_patient(tmp_path, "patient001")
        lost = add_patient(tmp_path, "patient002") / f"patient002_{name}"
        lost.unlink()
        message = fails(tmp_path)
        assert str(lost) in message
        assert "Info.cfg" in message
