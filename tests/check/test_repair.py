"""Tests of repairing headers, by the command."""

from __future__ import annotations

import csv
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import yaml

from dcl_monai.cli.main import main

AFFINE = np.diag([1.5, 1.5, 8.0, 1.0])


@pytest.fixture
def document(tmp_path, write_nifti) -> Path:
    rng = np.random.default_rng(0)
    turned = AFFINE.copy()
    turned[:3, 0], turned[:3, 1] = AFFINE[:3, 1], AFFINE[:3, 0]
    moved = AFFINE.copy()
    moved[:3, 3] = 200, -3, 0
    headers = {1: moved, 2: np.eye(4), 3: turned}
    for k in range(8):
        write_nifti(f"s{k}.nii.gz", rng.normal(size=(8, 8, 3)).astype(np.float32), AFFINE)
        label = (np.arange(192).reshape(8, 8, 3) % 3 + 0).astype(np.uint8)
        write_nifti(f"s{k}_gt.nii.gz", label, headers.get(k, AFFINE))
    entry = {"images": "{subject}.nii.gz", "labels": "{subject}_gt.nii.gz"}
    values = {0: "background", 1: "RV", 2: "LV"}
    content = {"classes": ["background", "RV", "LV"], "datasets": {"north": entry | {"values": values}}}
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "my.yaml"


def test_repair(document, tmp_path, capsys):
    assert main(["check", str(document)]) == 1
    assert "--repair OUT` writes a good copy" in capsys.readouterr().out
    before = {path: path.read_bytes() for path in tmp_path.glob("*.nii.gz")}
    assert main(["check", str(document), "--repair", str(tmp_path / "out")]) == 1  # one is left
    printed = capsys.readouterr().out
    assert f"{tmp_path / 's1_gt.nii.gz'}: moved by (-200, 3, 0) mm, onto the image" in printed
    assert f"{tmp_path / 's2_gt.nii.gz'}: the label's header says nothing" in printed
    assert f"{tmp_path / 's3_gt.nii.gz'}: its axes differ" in printed
    assert {path: path.read_bytes() for path in tmp_path.glob("*.nii.gz")} == before
    with (tmp_path / "out/changes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted(Path(row["label"]).name for row in rows) == ["s1_gt.nii.gz", "s2_gt.nii.gz"]
    for row in rows:
        copy = nib.load(row["copy"])
        assert np.array_equal(copy.affine, AFFINE)
        assert np.array_equal(np.asarray(copy.dataobj), np.asarray(nib.load(row["label"]).dataobj))
    assert main(["check", str(tmp_path / "out/datalist.json")]) == 1
    printed = capsys.readouterr().out
    assert "s3_gt.nii.gz: its affine differs" in printed
    assert "s1_gt" not in printed
    assert main(["check", str(document), "--repair", str(tmp_path / "out")]) == 1
    assert "is not empty. Give --repair a new folder" in capsys.readouterr().err


def test_nothing_to_repair(document, tmp_path, capsys):
    content = yaml.safe_load(document.read_text())
    content["datasets"]["north"]["images"] = "s{subject}.nii.gz"
    for k in (1, 2, 3):
        (tmp_path / f"s{k}_gt.nii.gz").unlink()
        (tmp_path / f"s{k}.nii.gz").unlink()
    assert main(["check", str(document), "--repair", str(tmp_path / "out")]) == 0
    assert "0 label(s) repaired" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
