"""From a YAML file to a model that is trained, verified, used and exported: by the wheel, outside of the clone."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import nibabel as nib
import numpy as np
import onnxruntime
import pytest
import torch

SHORT = {"stage1_epochs": "1", "stage2_epochs": "1", "iterations_per_epoch": "3", "bank_size": "2", "val_interval": "1"}
WORDS = [word for name, value in SHORT.items() for word in (f"--{name}", value)]


def commands(form: str, bundle: Path) -> dict[str, list[str | Path]]:
    """The documented commands: the verbs, or those of ``monai.bundle`` that they print."""
    if form == "verbs":
        return {verb: [verb, bundle] for verb in ("train", "predict", "export")}
    train, evaluate, inference, metadata = (
        bundle / "configs" / f"{name}.json" for name in ("train", "evaluate", "inference", "metadata")
    )
    start, model = ["-m", "monai.bundle"], bundle / "models" / "model"
    files = ["--meta_file", metadata, "--config_file", inference]
    weights = ["--ckpt_file", f"{model}.pt", "--filepath", f"{model}.ts", "--bundle_root", bundle]
    return {
        "train": [*start, "run", "training", "--config_file", train],
        "evaluate": [*start, "run", "evaluating", "--config_file", f"['{train}','{evaluate}']"],
        "predict": [*start, "run", "--config_file", inference],
        "export": [*start, "ckpt_export", "network_def", *weights, *files],
        "verify": [*start, "verify_net_in_out", "network_def", *files],
    }


@pytest.mark.slow
@pytest.mark.parametrize(("dims", "form"), [(2, "verbs"), (3, "monai.bundle")])
def test_from_a_file_to_an_exported_model(dims, form, installed, hospitals, tmp_path):
    source, made, bundle = hospitals(dims), tmp_path / "made" / "hearts", tmp_path / "elsewhere" / "hearts"
    installed.run("new", source, made, "--size", "small", "--device", "cpu", cwd=tmp_path)
    assert {path.name for path in made.iterdir()} == {"LICENSE", "configs", "data", "docs", "models"}
    shutil.copytree(made, bundle)
    shutil.rmtree(made)  # a copy needs nothing of it
    command = commands(form, bundle)
    if form == "monai.bundle":
        log = installed.run("verify", bundle, cwd=tmp_path)
        assert "model and export were not checked" in log
        assert log.count("ok ") == 6
        installed.run(*command["verify"], cwd=tmp_path)
    log = installed.run(*command["train"], *WORDS, cwd=tmp_path)
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

    image = source.parent / "north" / "p0" / "image.nii.gz"
    folders = [image.parent, tmp_path / "out"]
    if form == "monai.bundle":
        folders = ["--dataset_dir", image.parent, "--output_dir", tmp_path / "out"]
        assert installed.run("verify", bundle, cwd=tmp_path).count("ok ") == 8
        installed.run(*command["evaluate"], cwd=tmp_path)
        assert (bundle / "evaluation" / "test_dice.csv").is_file()
    installed.run(*command["predict"], *folders, "--pattern", "image.nii.gz", cwd=tmp_path)
    segmented = nib.load(tmp_path / "out" / "image_seg.nii.gz")
    assert segmented.shape == nib.load(image).shape
    assert set(np.unique(segmented.dataobj)) <= {0, 1, 2}
    installed.run(*command["export"], cwd=tmp_path)
    model = torch.jit.load(bundle / "models" / "model.ts")
    assert "settings_json" in model.state_dict()
    assert len(list((bundle / "runs").iterdir())) == 1  # nothing but training makes runs
    if form == "verbs":
        for ending in ("pt2", "onnx"):
            installed.run(*command["export"], "--format", ending, cwd=tmp_path)
        planned = torch.rand(3, 1, *[16] * dims)
        expected = model(planned).detach().numpy()
        program = torch.export.load(bundle / "models" / "model.pt2").module()
        assert np.allclose(program(planned).detach().numpy(), expected, atol=1e-4)
        session = onnxruntime.InferenceSession(bundle / "models" / "model.onnx")
        assert np.allclose(session.run(None, {"image": planned.numpy()})[0], expected, atol=1e-4)


@pytest.mark.slow
def test_two_trainings_at_once(installed, hospitals, tmp_path):
    """Both are complete, each in its folder. One that has too little time says how much it needs."""
    installed.run("new", hospitals(2), "hearts", "--size", "small", "--device", "cpu", cwd=tmp_path)
    training = [*commands("monai.bundle", tmp_path / "hearts")["train"], *WORDS]
    short = ["train", "hearts", "--minutes", "0.01", "--batch_size", "2"]
    three = [installed.start(*words, cwd=tmp_path) for words in (training, training, short)]
    printed = [process.communicate()[0] for process in three]
    assert [process.returncode for process in three] == [0, 0, 1], "\n".join(text[-1500:] for text in printed)
    assert "error: --minutes 0.01 is too short. At least " in printed[2]
    assert "/dcl_monai/bundle/configs/minutes.json" in printed[2]  # the wheel's, not the clone's
    complete = [path.parent for path in (tmp_path / "hearts" / "runs").glob("*/record.json")]
    assert [json.loads((folder / "record.json").read_text())["status"] for folder in complete] == ["complete"] * 2
    models = [(folder / "model.pt").read_bytes() for folder in complete]
    assert (tmp_path / "hearts" / "models" / "model.pt").read_bytes() in models
