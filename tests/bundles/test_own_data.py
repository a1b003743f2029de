"""The worked examples of docs/start/own_data.md, as a reader runs them: one file, checked, trained, evaluated."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
import yaml
from helpers import Forked, command_line

from dcl_monai.cli import main
from dcl_monai.datalist import load_datalist
from dcl_monai.synthetic import write_synthetic_acdc

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def train(folder: Path, settings: dict[str, object], datalist: Path, **override: object) -> str:
    """Train by the README's command and return the log."""
    paths = {"datalist": str(datalist), "output_dir": str(folder), "model_file": str(folder / "model.pt")}
    options = settings | paths | {"iterations_per_epoch": 4, "config_file": "bundles/acdc/train.json"} | override
    done = Forked(*command_line("run", "training", **options)).wait()
    return done.stdout + done.stderr


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "test_dice.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("hospitals")
    hearts = write_synthetic_acdc(tmp_path_factory.mktemp("acdc"), num_subjects=15, progress=False)
    assert Forked(ROOT / "docs/examples/split_acdc.py", hearts, out).wait().returncode == 0
    content = yaml.safe_load((out / "hearts.yaml").read_text(encoding="utf-8"))
    # four subjects each, and three that are held out: two are trained on
    (out / "hearts.yaml").write_text(yaml.safe_dump(content | {"split": [2, 1, 1]}))
    return out / "hearts.yaml"


class TestThreeHospitals:
    def test_the_file_is_the_one_in_the_docs(self):
        page = (ROOT / "docs/start/own_data.md").read_text(encoding="utf-8")
        shown = re.search(r"```yaml\n(classes: .*?)```", page, re.DOTALL)
        assert shown
        kept = (ROOT / "docs/examples/hearts.yaml").read_text(encoding="utf-8")
        assert yaml.safe_load(shown[1]) == yaml.safe_load(kept)

    def test_check(self, hospitals, capsys):
        assert main(["check", str(hospitals)]) == 0
        printed = capsys.readouterr().out
        assert "Ready to train" in printed
        assert "learned by exclusion" in printed
        assert hospitals.with_name("hearts_report.html").stat().st_size > 10_000

    def test_training_and_evaluation_per_hospital(self, hospitals, small_settings, tmp_path):
        log = train(tmp_path, small_settings, hospitals)
        rows = table(tmp_path)
        measured = {"north": {"RV"}, "south": {"MYO"}, "east": {"whole heart"}}
        measured["held out"] = {"RV", "MYO", "LV", "whole heart"}
        assert {row["dataset"] for row in rows} == {*measured}, log[-3000:]
        for row in rows:
            assert {name for name in measured["held out"] if row[name]} == measured[row["dataset"]]
        lines = [line.split() for line in log.splitlines()]
        assert {"north", "south", "east"} <= {words[0] for words in lines if words}  # rows of the printed table


def test_three_dimensional_decathlon_with_one_class_per_case(write_nifti, tmp_path, small_settings):
    rng = np.random.default_rng(0)
    training = []
    for case in range(12):
        label = np.zeros((20, 24, 6), np.uint8)
        label[6:12, 6:12, 1:5], label[12:17, 8:14, 1:5] = 1, 2
        image = (label + rng.normal(0, 0.3, label.shape)).astype(np.float32)
        write_nifti(f"task/imagesTr/case_{case:03d}.nii.gz", image)
        write_nifti(f"task/labelsTr/case_{case:03d}.nii.gz", label)
        name = f"case_{case:03d}.nii.gz"
        training.append({"image": f"./imagesTr/{name}", "label": f"./labelsTr/{name}"})
    labels = {"0": "background", "1": "Anterior", "2": "Posterior"}
    content = {"name": "Hippocampus", "modality": {"0": "MRI"}, "labels": labels, "training": training, "test": []}
    (tmp_path / "task/dataset.json").write_text(json.dumps(content))
    full, partial = tmp_path / "full.yaml", tmp_path / "partial.json"
    assert main(["convert", "decathlon", str(tmp_path / "task"), str(full)]) == 0
    assert main(["simulate", str(full), str(partial), "--classes-per-subject", "1", "--split", "8", "2", "2"]) == 0
    assert main(["check", str(partial)]) == 0
    small = {key: value for key, value in small_settings.items() if key != "split"}
    log = train(tmp_path / "out", small, partial, pixdim=[1, 1, -1], spatial_size=[24, 24, -1])
    assert [set(row) for row in table(tmp_path / "out")], log[-3000:]
    assert all(row["Anterior"] and row["Posterior"] for row in table(tmp_path / "out"))
    assert torch.load(tmp_path / "out/model.pt", weights_only=True)["bank.images"].shape[0] == 3


def test_scribbles_with_a_background_stroke(synthetic_acdc, tmp_path, small_settings):
    full, strokes = tmp_path / "acdc.yaml", tmp_path / "scribbles.json"
    assert main(["convert", "acdc", str(synthetic_acdc), str(full)]) == 0
    assert main(["simulate", str(full), str(strokes), "--scribbles", "--split", "8", "2", "2"]) == 0
    item = load_datalist(strokes)["training"][0]
    drawn, blank = np.asarray(nib.load(item["label"]).dataobj), item["unlabelled"][0]
    assert 0.9 < (drawn == blank).mean() < 1  # strokes only
    assert {item["values"][value][0] for value in np.unique(drawn) if value != blank} == {0, 1, 2, 3}
    log = train(tmp_path / "out", {k: v for k, v in small_settings.items() if k != "split"}, strokes)
    assert len(table(tmp_path / "out")) == 4, log[-3000:]


def test_unlabelled_images_need_the_dual_loop(synthetic_acdc, tmp_path, small_settings):
    """They are targets that only the dual pass and the prior see; a method without it refuses them."""
    folder = tmp_path / "data"
    shutil.copytree(synthetic_acdc, folder)
    missing = sorted(folder.glob("patient00[1-4]/*_gt.nii.gz"))
    for label in missing:
        label.unlink()
    entry = {
        "folder": "data",
        "images": "{subject}/{subject}_frame{frame}.nii.gz",
        "labels": "{subject}/{subject}_frame{frame}_gt.nii.gz",
        "values": {0: "background", 1: "RV", 2: "MYO", 3: "LV"},
    }
    content = {"classes": ["background", "RV", "MYO", "LV"], "split": [8, 2, 2], "datasets": {"all": entry}}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(content))
    settings = {key: value for key, value in small_settings.items() if key != "split"}
    assert str(missing[0]) in train(tmp_path / "out", settings, tmp_path / "own.yaml")  # nobody said it may be missing
    content["datasets"]["all"]["allow_missing_labels"] = True
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(content))
    log = train(tmp_path / "out", settings, tmp_path / "own.yaml", dual="false")
    assert re.search(r"error: .*has no label.*\(--dual true\) and filling", log)
    log = train(tmp_path / "out", settings, tmp_path / "own.yaml")
    assert "next: python -m monai.bundle run" in log, log[-3000:]
