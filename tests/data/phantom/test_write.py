"""Tests of the writer of synthetic data sets."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from dcl_monai.data.phantom import GENERATOR_VERSION, GROUPS, MARKER_NAME, PHASES, write, write_synthetic_acdc
from dcl_monai.utils import DataError

pytestmark = pytest.mark.usefixtures("made")


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def first_subjects(root: Path, number: int) -> dict[str, bytes]:
    names = {f"patient{i + 1:03d}" for i in range(number)}
    return {name: data for name, data in contents(root).items() if Path(name).parts[0] in names}


def test_layout(dataset):
    assert sorted(path.name for path in dataset.iterdir()) == [f"patient00{i}" for i in range(1, 7)] + [MARKER_NAME]
    groups = []
    for folder in sorted(dataset.glob("patient*")):
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
    assert json.loads((dataset / MARKER_NAME).read_text()) == {
        "generator": "dcl_monai.data.phantom",
        "version": GENERATOR_VERSION,
        "seed": 3,
        "num_subjects": 6,
    }


def test_growing_keeps_the_first_subjects(dataset, tmp_path, made):
    reference = first_subjects(dataset, 3)
    write_synthetic_acdc(tmp_path, num_subjects=2, seed=3, progress=False)
    small = contents(tmp_path)
    small.pop(MARKER_NAME)
    assert len(small) == 10
    assert all(reference[name] == data for name, data in small.items())
    made.clear()
    write_synthetic_acdc(tmp_path, num_subjects=3, seed=3, progress=False)
    assert len(made) == 1
    assert json.loads((tmp_path / MARKER_NAME).read_text())["num_subjects"] == 3
    assert first_subjects(tmp_path, 40) == reference


def test_finished_data_set_is_left_alone(dataset, monkeypatch):
    def fail(*args):
        raise AssertionError("nothing must be written")

    monkeypatch.setattr(os, "replace", fail)
    before = {path: path.stat().st_mtime_ns for path in dataset.rglob("*")}
    assert write_synthetic_acdc(str(dataset), num_subjects=6, seed=3, progress=False) == dataset
    assert {path: path.stat().st_mtime_ns for path in dataset.rglob("*")} == before


def test_interrupted_data_set_is_finished(dataset, tmp_path, monkeypatch, made):
    make = write.synthesize_subject

    def interrupted(*args):
        if len(made) == 2:
            raise KeyboardInterrupt
        return make(*args)

    monkeypatch.setattr(write, "synthesize_subject", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_synthetic_acdc(tmp_path, num_subjects=3, seed=3, progress=False)
    assert not (tmp_path / MARKER_NAME).exists()
    monkeypatch.setattr(write, "synthesize_subject", make)
    (tmp_path / "patient001" / "Info.cfg").unlink()
    write_synthetic_acdc(tmp_path, num_subjects=3, seed=3, progress=False)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [MARKER_NAME]
    assert first_subjects(tmp_path, 40) == first_subjects(dataset, 3)


def test_lost_volume_is_restored(dataset, tmp_path):
    write_synthetic_acdc(tmp_path, num_subjects=2, seed=3, progress=False)
    lost = next((tmp_path / "patient002").glob("*_gt.nii.gz"))
    lost.unlink()
    write_synthetic_acdc(tmp_path, num_subjects=2, seed=3, progress=False)
    assert lost.read_bytes() == (dataset / "patient002" / lost.name).read_bytes()


def test_no_half_written_file_stays(tmp_path, monkeypatch):
    class Broken(gzip.GzipFile):
        def close(self):
            super().close()
            raise OSError("disk full")

    monkeypatch.setattr(gzip, "GzipFile", Broken)
    with pytest.raises(OSError, match="disk full"):
        write_synthetic_acdc(tmp_path, num_subjects=1, seed=3, progress=False)
    assert list(contents(tmp_path)) == ["phantom.incomplete.json"]


def test_other_parameters_replace_the_data_set(dataset, tmp_path):
    write_synthetic_acdc(tmp_path, num_subjects=2, seed=4, progress=False)
    (tmp_path / "patient002" / "notes.txt").write_text("mine")
    (tmp_path / "patient002" / ".Info.cfg.123.tmp").write_text("left by a process that was killed")
    write_synthetic_acdc(tmp_path, num_subjects=1, seed=3, progress=False)
    written = contents(tmp_path)
    assert written.pop("patient002/notes.txt") == b"mine"
    assert json.loads(written.pop(MARKER_NAME))["num_subjects"] == 1
    assert written == first_subjects(dataset, 1)


def test_other_generator_version_replaces_the_data_set(tmp_path, monkeypatch):
    write_synthetic_acdc(tmp_path, num_subjects=1, seed=3, progress=False)
    monkeypatch.setattr(write, "GENERATOR_VERSION", GENERATOR_VERSION + 1)
    image = next((tmp_path / "patient001").glob("*_frame01.nii.gz"))
    image.write_bytes(b"of an older version")
    write_synthetic_acdc(tmp_path, num_subjects=1, seed=3, progress=False)
    assert nib.load(image).shape[2] >= 6
    assert json.loads((tmp_path / MARKER_NAME).read_text())["version"] == GENERATOR_VERSION + 1


@pytest.mark.parametrize("marked", [False, True])
def test_foreign_patients_are_never_touched(tmp_path, marked):
    if marked:
        write_synthetic_acdc(tmp_path, num_subjects=1, seed=3, progress=False)
    (tmp_path / "patient007").mkdir()
    (tmp_path / "patient007" / "Info.cfg").write_text("ED: 1\n")
    before = contents(tmp_path)
    with pytest.raises(DataError, match=r"patient007.*choose an empty or new folder") as error:
        write_synthetic_acdc(tmp_path, num_subjects=8, seed=3, progress=False)
    assert str(tmp_path) in str(error.value)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("content", ['{"seed": 0}', '{"generator": "dcl_monai.data.phantom"}', "[]", "no json"])
@pytest.mark.parametrize("name", [MARKER_NAME, "phantom.incomplete.json"])
def test_foreign_marker_is_refused(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match="not written by"):
        write_synthetic_acdc(tmp_path, num_subjects=1, seed=3, progress=False)
    assert contents(tmp_path) == {name: content.encode()}


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="num_subjects"):
        write_synthetic_acdc(tmp_path / "new", num_subjects=0)
    with pytest.raises(ValueError, match="seed"):
        write_synthetic_acdc(tmp_path / "new", seed=-1)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file"):
        write_synthetic_acdc(tmp_path / "file")
    assert not (tmp_path / "new").exists()


def test_no_progress_bar_without_a_terminal(tmp_path, capsys):
    write_synthetic_acdc(tmp_path, num_subjects=1, seed=3)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "", "a bar is for a terminal, not for a log file"
