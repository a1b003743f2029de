"""The other bundles as their user runs them: the same ids, commands and overlays as bundles/acdc."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from monai.bundle import ConfigParser, ConfigWorkflow

from dcl_monai.data import write_synthetic_mmwhs, write_synthetic_mscmr

ROOT = Path(__file__).parents[2]
CLASSES = {
    "mscmr": ["RV", "MYO", "LV", "whole heart"],
    "mmwhs": ["LV", "MYO", "RV", "LA", "RA", "AO", "PA", "whole heart"],
}
COMMON = {"stage1_epochs": 1, "stage2_epochs": 1, "bank_size": 2, "device": "$torch.device('cpu')"}
SMALL = {
    "mscmr": {
        "split": [8, 1, 1],
        "pixdim": [6.0, 6.0, -1],
        "spatial_size": [40, 40, -1],
        "network_def#compnet#features": [4, 4, 8, 8, 8, 4],
    },
    "mmwhs": {
        "split": [8, 1, 1],
        "pixdim": [8.0, 8.0, 8.0],
        "spatial_size": [16, 16, 16],
        "network_def#compnet#filters": [4, 4, 8, 8],
    },
}
every_bundle = pytest.mark.parametrize("bundle", SMALL)


def run(*words: str, **override: object) -> str:
    line = [sys.executable, "-W", "ignore", "-m", "monai.bundle", *words]
    for key, value in override.items():
        line += [f"--{key}", value if isinstance(value, str) else json.dumps(value)]
    done = subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, Path]:
    writers = {"mscmr": write_synthetic_mscmr, "mmwhs": write_synthetic_mmwhs}
    return {name: write(tmp_path_factory.mktemp(name), 10, progress=False) for name, write in writers.items()}


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory) -> dict[str, Path]:
    """A small training of each bundle by the README's command."""
    outputs = {name: tmp_path_factory.mktemp(f"trained_{name}") for name in SMALL}
    for name, output in outputs.items():
        paths = {"dataset_dir": str(data[name]), "output_dir": str(output), "model_file": str(output / "model.pt")}
        run("run", "training", config_file=f"bundles/{name}/train.json", **paths, **COMMON, **SMALL[name])
    return outputs


@every_bundle
def test_training(trained, bundle):
    with (trained[bundle] / "test_dice.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert set(CLASSES[bundle]) < set(row)
    assert row["whole heart"]
    assert (trained[bundle] / "overlays.png").exists()
    history = (trained[bundle] / "history.csv").read_text(encoding="utf-8").splitlines()
    assert len(history) == 3
    state = torch.load(trained[bundle] / "model.pt", weights_only=True)["model"]
    assert state["bank.valid"].shape == (len(CLASSES[bundle]), 2)  # with background, without the whole heart


@every_bundle
def test_inference_keeps_the_geometry(trained, data, bundle, tmp_path):
    paths = {"dataset_dir": str(data[bundle]), "output_dir": str(tmp_path)}
    model = str(trained[bundle] / "model.pt")
    run("run", config_file=f"bundles/{bundle}/configs/inference.json", model_file=model, **paths)
    masks = sorted(tmp_path.rglob("*_seg.nii.gz"))
    assert len(masks) == 10
    name = masks[0].name.replace("_seg", "")
    image, mask = nib.load(data[bundle] / name), nib.load(masks[0])
    assert mask.shape == image.shape
    np.testing.assert_allclose(mask.affine, image.affine, atol=1e-4)


@every_bundle
@pytest.mark.parametrize(
    ("kind", "files"),
    [("train", ["train.json"]), ("infer", ["inference.json"]), ("infer", ["train.json", "evaluate.json"])],
    ids=["train", "inference", "evaluate"],
)
def test_properties(bundle, kind, files, data, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    folder = ROOT / "bundles" / bundle / "configs"
    workflow = ConfigWorkflow(
        config_file=[str(folder / name) for name in files],
        meta_file=str(folder / "metadata.json"),
        logging_file=False,
        workflow_type=kind,
        dataset_dir=str(data[bundle]),
        output_dir=str(tmp_path),
        **(COMMON | SMALL[bundle] if "train.json" in files else {}),
    )
    workflow.initialize()
    assert workflow.check_properties() == []


@every_bundle
def test_same_ids_as_acdc(bundle):
    """What differs between the bundles is data, grid and network, and the patches of 3D training; nothing else."""

    def ids(name: str) -> set[str]:
        parser = ConfigParser()
        parser.read_config(ROOT / "bundles" / name / "configs" / "train.json")
        config = parser.get()
        nested = {f"{key}#{inner}" for key in ("train", "validate", "test") for inner in config[key]}
        return set(config) | nested

    extra = {"mscmr": set(), "mmwhs": {"criterion", "train#patches", "train#sampler"}}[bundle]
    assert ids(bundle) - ids("acdc") == extra
    assert not ids("acdc") - ids(bundle)
