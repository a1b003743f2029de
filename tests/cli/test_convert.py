"""Tests of `python -m dcl_monai convert`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from dcl_monai.cli.convert import LAYOUTS, OPTIONS
from dcl_monai.cli.main import main
from dcl_monai.datalist.convert import CONVERTERS
from dcl_monai.datalist.load import datalist_hash, load_datalist


@pytest.fixture
def mscmr(tmp_path, write_nifti) -> Path:
    """MSCMR with reduced values; the last of ten subjects has no label."""
    for number in range(1, 11):
        write_nifti(f"data/MS CMR/subject{number}_DE.nii.gz", np.zeros((2, 2, 1), np.int16))
    for number in range(1, 10):
        label = np.ones((4, 3, 1), np.int16)  # 1 is a ring around 2
        label[1, 1], label[3] = 2, [[3], [0], [0]]
        write_nifti(f"data/MS CMR/subject{number}_DE_manual.nii.gz", label)
    return tmp_path / "data/MS CMR"


def test_layouts_are_the_converters():
    assert list(LAYOUTS) == list(CONVERTERS)
    assert set(OPTIONS) <= set(CONVERTERS)


def test_yaml(tmp_path, mscmr, capsys):
    out = tmp_path / "lists/mscmr.yaml"
    assert main(["convert", "mscmr", str(mscmr), str(out)]) == 0
    text = out.read_text()
    lines = text.splitlines()
    assert lines[0] == f"# Made by `python -m dcl_monai convert mscmr` from {mscmr}."
    comments = " ".join(line.removeprefix("# ") for line in lines if line.startswith("#"))
    assert "1 MYO, 2 LV, 3 RV" in comments
    assert "1 image(s) without a label are left out" in comments
    assert "classes: [background, RV, MYO, LV]" in lines
    assert "    values: {0: background, 1: MYO, 2: LV, 3: RV}" in lines
    assert f"    folder: {mscmr}" in lines
    assert sum("_manual.nii.gz" in line for line in lines) == 9  # one line per image
    assert list(yaml.safe_load(text)) == ["classes", "unions", "split", "datasets"]
    printed = capsys.readouterr().out
    assert f"{out}: 9 images of 9 subjects (training 5, validation 1, test 3)" in printed
    assert "MSCMR: label values 0 background, 1 MYO, 2 LV, 3 RV" in printed
    assert "1 image(s) without a label are left out" in printed
    assert printed.endswith(f"next: python -m dcl_monai check {out}\n")


def test_json_and_yaml_are_the_same_datalist(tmp_path, mscmr):
    for name in ("a.yaml", "b.yml", "c.JSON"):
        assert main(["convert", "mscmr", str(mscmr), str(tmp_path / name), "--unlabelled"]) == 0
    first, *others = (load_datalist(tmp_path / name) for name in ("a.yaml", "b.yml", "c.JSON"))
    assert all(datalist_hash(other) == datalist_hash(first) for other in others)
    assert sum("label" not in item for item in first["training"]) == 1
    assert "convert mscmr --unlabelled`" in (tmp_path / "a.yaml").read_text().splitlines()[0]
    json.loads((tmp_path / "c.JSON").read_text())


def test_header_names_the_options(tmp_path, write_nifti):
    for number in range(5):
        for name in (f"imagesTr/{number}_0000", f"imagesTr/{number}_0001", f"labelsTr/{number}"):
            write_nifti(f"{name}.nii.gz", np.zeros((1, 1, 1), np.int16))
    labels = {"background": 0, "no": 1}  # a word that bare YAML would read as false
    content = {"channel_names": {"0": "T2", "1": "ADC"}, "labels": labels, "file_ending": ".nii.gz"}
    (tmp_path / "dataset.json").write_text(json.dumps(content))
    assert main(["convert", "nnunet", str(tmp_path), str(tmp_path / "out.yaml"), "--channel", "0"]) == 0
    header = (tmp_path / "out.yaml").read_text().splitlines()[0]
    assert header == f"# Made by `python -m dcl_monai convert nnunet --channel 0` from {tmp_path}."
    assert load_datalist(tmp_path / "out.yaml")["classes"] == ["background", "no"]


def test_list_and_data_move_together(tmp_path, mscmr):
    assert main(["convert", "mscmr", str(mscmr), str(tmp_path / "data/list.yaml"), "--relative"]) == 0
    shutil.move(tmp_path / "data", tmp_path / "elsewhere")
    item = load_datalist(tmp_path / "elsewhere/list.yaml")["training"][0]
    assert Path(item["image"]).resolve().is_relative_to(tmp_path / "elsewhere")


def test_relative_paths(tmp_path, mscmr, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["convert", "mscmr", "data/MS CMR", "out.yaml"]) == 0
    (tmp_path / "further/away").mkdir(parents=True)
    assert load_datalist(shutil.move("out.yaml", "further/away/out.yaml"))["training"]
    assert main(["convert", "mscmr", "data/MS CMR", "out.yaml", "--relative"]) == 0
    assert yaml.safe_load(Path("out.yaml").read_text())["datasets"]["MSCMR"]["folder"] == "data/MS CMR"


class TestRefusals:
    def message(self, capsys, *words: object) -> str:
        assert main(["convert", *map(str, words)]) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        return error

    def test_existing_file(self, tmp_path, mscmr, capsys):
        out = tmp_path / "out.yaml"
        out.write_text("mine")
        assert "exists already" in self.message(capsys, "mscmr", mscmr, out)
        assert out.read_text() == "mine"
        assert main(["convert", "mscmr", str(mscmr), str(out), "--force"]) == 0
        assert load_datalist(out)["training"]

    @pytest.mark.parametrize("name", ["out.txt", "out", "out.yaml.gz"])
    def test_suffix(self, tmp_path, mscmr, capsys, name):
        assert ".yaml, .yml or .json" in self.message(capsys, "mscmr", mscmr, tmp_path / name)
        assert not (tmp_path / name).exists()

    def test_failure_leaves_no_file(self, tmp_path, capsys):
        assert "no such folder" in self.message(capsys, "mscmr", tmp_path / "nowhere", tmp_path / "out.yaml")
        assert list(tmp_path.iterdir()) == []

    def test_the_data_sets_own_list_is_never_overwritten(self, tmp_path, capsys):
        path = tmp_path / "dataset.json"
        path.write_text("{}")
        assert "own dataset.json" in self.message(capsys, "decathlon", tmp_path, path, "--force")
        assert path.read_text() == "{}"

    def test_place_that_cannot_be_written(self, tmp_path, mscmr, capsys):
        (tmp_path / "file").touch()
        assert "cannot be written" in self.message(capsys, "mscmr", mscmr, tmp_path / "file/out.yaml")

    def test_too_few_subjects(self, tmp_path, mscmr, capsys):
        for number in range(3, 11):
            for path in mscmr.glob(f"subject{number}_*"):
                path.unlink()
        out = tmp_path / "out.yaml"
        message = self.message(capsys, "mscmr", mscmr, out)
        assert f"{out} is written, but" in message
        # the remedy that the message names works
        out.write_text(out.read_text().replace("  MSCMR:\n", "  MSCMR:\n    split: training\n"))
        assert "split: training" in message
        assert len(load_datalist(out)["training"]) == 2

    def test_option_of_another_layout(self, tmp_path, mscmr):
        with pytest.raises(SystemExit, match="2"):
            main(["convert", "mscmr", str(mscmr), str(tmp_path / "out.yaml"), "--channel", "1"])
