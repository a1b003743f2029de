"""From a YAML file to a model that is trained, verified, used and exported, by the documented commands."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import onnxruntime
import pytest
import torch

SHORT = {"stage1_epochs": "1", "stage2_epochs": "1", "iterations_per_epoch": "3", "bank_size": "2", "val_interval": "1"}


def run(*words: str | Path, cwd: Path) -> str:
    """Run a command in a folder that is not a bundle, and return what it prints."""
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
    assert log.count("ok ") == 6

    config = bundle / "configs" / "train.json"
    short = [word for name, value in SHORT.items() for word in (f"--{name}", value)]
    log = run("monai.bundle", "run", "training", "--config_file", config, *short, cwd=tmp_path)
    assert f"next: python -m monai.bundle run --config_file {bundle}/configs/inference.json" in log
    assert "verdict: test Dice " in log
    (folder,) = (bundle / "runs").iterdir()
    record = json.loads((folder / "record.json").read_text())
    assert record["status"] == "complete"
    assert record["verdict"] in log
    assert record["versions"]["torch"]
    assert len(record["datalist_sha256"]) == 64
    assert json.loads((folder / "config.json").read_text())["stage1_epochs"] == 1
    assert "epoch 2/2 stage 2" in (folder / "training.log").read_text()
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
    for form in ("pt2", "onnx"):
        run("dcl_monai", "export", bundle, "--format", form, cwd=tmp_path)
    planned = torch.rand(3, 1, *[16] * dims)
    expected = model(planned).detach().numpy()
    program = torch.export.load(bundle / "models" / "model.pt2").module()
    assert np.allclose(program(planned).detach().numpy(), expected, atol=1e-4)
    session = onnxruntime.InferenceSession(bundle / "models" / "model.onnx")
    assert np.allclose(session.run(None, {"image": planned.numpy()})[0], expected, atol=1e-4)
    assert len(list((bundle / "runs").iterdir())) == 1  # nothing but training makes runs


@pytest.mark.slow
def test_two_trainings_at_once(hospitals, tmp_path):
    """Both are complete, each in its folder. One that has too little time says how much it needs."""
    run("dcl_monai", "new", hospitals(2), tmp_path / "hearts", "--size", "small", "--device", "cpu", cwd=tmp_path)
    start = [sys.executable, "-W", "ignore", "-m", "dcl_monai", "train", "hearts"]
    short = [word for name in SHORT for word in (f"--{name}", SHORT[name])]
    options = {"cwd": tmp_path, "env": os.environ | {"OMP_NUM_THREADS": "1"}, "text": True, "encoding": "utf-8"}
    three = [
        subprocess.Popen([*start, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
        for words in (short, short, ["--minutes", "0.01", "--batch_size", "2"])
    ]
    printed = [process.communicate()[0] for process in three]
    assert [process.returncode for process in three] == [0, 0, 1], "\n".join(text[-1500:] for text in printed)
    assert "error: --minutes 0.01 is too short. The least is " in printed[2]
    complete = [path.parent for path in (tmp_path / "hearts" / "runs").glob("*/record.json")]
    assert [json.loads((folder / "record.json").read_text())["status"] for folder in complete] == ["complete"] * 2
    models = [(folder / "model.pt").read_bytes() for folder in complete]
    assert (tmp_path / "hearts" / "models" / "model.pt").read_bytes() in models
