"""From a YAML file to a model that is trained, verified, used and exported, by the documented commands."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch

SHORT = {"stage1_epochs": "1", "stage2_epochs": "1", "iterations_per_epoch": "3", "bank_size": "2", "val_interval": "1"}


def run(*words: str | Path, cwd: Path) -> str:
    """Run a command in a folder that is no bundle, and return what it prints."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", *map(str, words)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("dims", [2, 3])
def test_from_a_file_to_an_exported_model(dims, hospitals, tmp_path):
    source, made, bundle = hospitals(dims), tmp_path / "made" / "hearts", tmp_path / "elsewhere" / "hearts"
    run("dcl_monai", "new", source, made, "--size", "small", "--device", "cpu", cwd=tmp_path)
    shutil.copytree(made, bundle)
    shutil.rmtree(made)  # a copy needs nothing of it
    log = run("dcl_monai", "verify", bundle, cwd=tmp_path)
    assert "model and export were not checked" in log

    config = bundle / "configs" / "train.json"
    short = [word for name, value in SHORT.items() for word in (f"--{name}", value)]
    log = run("monai.bundle", "run", "training", "--config_file", config, *short, cwd=tmp_path)
    assert f"next: python -m monai.bundle run --config_file {bundle}/configs/inference.json" in log
    (folder,) = (bundle / "runs").iterdir()
    assert (folder / "model.pt").read_bytes() == (bundle / "models" / "model.pt").read_bytes()
    with (folder / "test_dice.csv").open() as file:
        assert {row["dataset"] for row in csv.DictReader(file)} == {"north", "south", "east"}

    assert run("dcl_monai", "verify", bundle, cwd=tmp_path).count("ok ") == 8
    run("dcl_monai", "evaluate", bundle, cwd=tmp_path)
    assert (bundle / "evaluation" / "test_dice.csv").is_file()
    image = source.parent / "north" / "p0" / "image.nii.gz"
    run("dcl_monai", "predict", bundle, image.parent, tmp_path / "out", "--pattern", "image.nii.gz", cwd=tmp_path)
    segmented = nib.load(tmp_path / "out" / "image_seg.nii.gz")
    assert segmented.shape == nib.load(image).shape
    assert set(np.unique(segmented.dataobj)) <= {0, 1, 2}
    run("dcl_monai", "export", bundle, cwd=tmp_path)
    model = torch.jit.load(bundle / "models" / "model.ts")
    assert "settings_json" in model.state_dict()
    assert len(list((bundle / "runs").iterdir())) == 1  # nothing but training makes runs
