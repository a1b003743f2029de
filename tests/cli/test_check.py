"""Tests of ``python -m dcl_monai check``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from dcl_monai.cli.main import main


@pytest.fixture
def document(tmp_path, write_nifti) -> Path:
    """A file that describes six subjects with nothing wrong."""
    rng = np.random.default_rng(0)
    for k in range(7):
        write_nifti(f"data/s{k}.nii.gz", rng.normal(size=(8, 7, 3)).astype(np.float32))
        write_nifti(f"data/s{k}_gt.nii.gz", (np.arange(168).reshape(8, 7, 3) % 3).astype(np.uint8))
    path = tmp_path / "my.yaml"
    classes = ["background", "RV", "LV"]
    entry = {"folder": "data", "images": "{subject}.nii.gz", "labels": "{subject}_gt.nii.gz"}
    content = {"classes": classes, "datasets": {"north": entry | {"values": dict(enumerate(classes))}}}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def test_clean_set(document, capsys):
    assert main(["check", str(document)]) == 0
    report = document.with_name("my_report.html")
    assert "Ready to train" in report.read_text(encoding="utf-8")
    shown = capsys.readouterr()
    assert "Ready to train" in shown.out
    assert str(report) in shown.out
    assert shown.err == ""


def test_warnings_do_not_fail(document, capsys):
    document.write_text(document.read_text() + "split: [3, 2, 2]\n")
    assert main(["check", str(document)]) == 0
    assert "seen in 3 training subject(s)" in capsys.readouterr().out


def test_an_empty_image_is_an_error(document, write_nifti, capsys):
    write_nifti("data/s0.nii.gz", np.ones((8, 7, 3), np.float32))
    assert main(["check", str(document)]) == 1
    assert "s0.nii.gz: is nearly constant: all but a few voxels have the value 1" in capsys.readouterr().out


def test_errors_fail_and_all_are_shown(document, tmp_path, write_nifti, capsys):
    (tmp_path / "data/s0.nii.gz").write_bytes(b"")
    write_nifti("data/s1_gt.nii.gz", np.full((8, 7, 3), 4, np.uint8))
    html = tmp_path / "elsewhere" / "report.html"
    assert main(["check", str(document), "--html", str(html), "--workers", "1"]) == 1
    shown = capsys.readouterr().out
    for text in (shown, html.read_text(encoding="utf-8")):
        assert "Not ready: 2 errors" in text
        assert "s0.nii.gz: cannot be read" in text
        assert "s1_gt.nii.gz: label value(s) [4] in 168 voxel(s)" in text
    assert not document.with_name("my_report.html").exists()


def test_mistake_in_the_file_is_one_line(document, capsys):
    document.write_text(document.read_text().replace("1: RV", "1: XX"), encoding="utf-8")
    assert main(["check", str(document)]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("workers", ["0", "-1", "x"])
def test_impossible_number_of_workers(document, workers, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["check", str(document), "--workers", workers])
    assert stop.value.code == 2
    assert "--workers" in capsys.readouterr().err
