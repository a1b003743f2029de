"""Two channels, neither of which suffices, from a file to a bundle; and pictures through folder inference."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import yaml
from monai.bundle import ConfigParser
from PIL import Image

from dcl_monai.bundle.new import new_bundle
from dcl_monai.inferers import find_images
from dcl_monai.networks import load_model
from dcl_monai.utils import DataError

SIZE, SUBJECTS = 32, 10
SMALL = {"stage1_epochs": 7, "stage2_epochs": 1, "iterations_per_epoch": 12, "val_interval": 4, "bank_size": 2}
SMALL |= {"batch_size": 4, "learning_rate": 0.005, "spatial_size": [SIZE, SIZE, -1], "pixdim": [2.0, 2.0, -1]}
NETWORK = {"_target_": "dcl_monai.networks.CompNet", "backbone": "BasicUNet", "num_classes": "@num_classes"}
NETWORK |= {"image_channels": "$len(@channels)", "conditional": "@conditional", "condition_scale": 0.1}
SMALL["network_def#compnet"] = NETWORK | {"spatial_dims": 2, "features": [8, 8, 16, 16, 16, 8]}


@pytest.fixture(scope="module")
def discs(tmp_path_factory) -> Path:
    """
    Discs of three kinds: A is bright in t1, B in t1 and t2, and what is bright in t2 alone is background.

    In t1 B looks like A, in t2 B looks like background.
    """
    root, (x, y) = tmp_path_factory.mktemp("discs"), np.indices((SIZE, SIZE))
    for subject in range(SUBJECTS):
        rng = np.random.default_rng(subject)
        volumes = {name: np.zeros((SIZE, SIZE, 3)) for name in ("t1", "t2", "gt")}
        for k in range(3):
            places = rng.permutation([(i, j) for i in (8, 24) for j in (8, 24)])
            for place, values in zip(places, ((1, 0, 1), (1, 1, 2), (0, 1, 0), (0, 1, 0)), strict=True):
                i, j = place + rng.integers(-2, 3, 2)
                disc = (x - i) ** 2 + (y - j) ** 2 < rng.integers(4, 6) ** 2
                for volume, value in zip(volumes.values(), values, strict=True):
                    volume[disc, k] = value
        for name, volume in volumes.items():
            noisy = volume if name == "gt" else 100 * volume + rng.normal(0, 15, volume.shape)
            image = nib.Nifti1Image(noisy.astype(np.uint8 if name == "gt" else np.float32), np.diag([2, 2, 8, 1.0]))
            nib.save(image, root / f"s{subject}_{name}.nii.gz")
    return root


def describe(root: Path, *channels: str) -> Path:
    """The datalist of some channels; one class is drawn in every subject."""
    path = root / f"{'_'.join(channels)}.yaml"
    entry = {
        "images": [f"{{subject}}_{channel}.nii.gz" for channel in channels],
        "labels": "{subject}_gt.nii.gz",
        "values": {0: "background", 1: "A", 2: "B"},
        "annotated": {f"s{k}": [("A", "B")[k % 2]] for k in range(SUBJECTS)},
    }
    content = {"classes": ["background", "A", "B"], "channels": [*channels], "split": [6, 2, 2]}
    path.write_text(yaml.safe_dump(content | {"datasets": {"discs": entry}}))
    return path


def trained(root: Path, folder: Path, *channels: str) -> float:
    """Train the bundle of some channels for a few steps; mean Dice of the test images."""
    bundle = new_bundle(describe(root, *channels), folder / "_".join(channels), "small", device="cpu")
    parser = ConfigParser()
    parser.read_config(str(bundle / "configs" / "train.json"))
    files = {"output_dir": str(bundle / "out"), "model_file": str(bundle / "models/model.pt")}
    parser.update(SMALL | files | {"bundle_root": str(bundle)})
    parser.get_parsed_content("training")
    with (bundle / "out" / "test_dice.csv").open() as file:
        rows = list(csv.DictReader(file))
    return float(np.mean([float(row[name]) for row in rows for name in ("A", "B") if row[name]]))


@pytest.mark.slow
def test_two_channels_beat_either_alone(discs, tmp_path):
    both = trained(discs, tmp_path, "t1", "t2")
    alone = [trained(discs, tmp_path, channel) for channel in ("t1", "t2")]
    assert both > max(alone) + 0.1, (both, alone)
    bundle = tmp_path / "t1_t2"
    image = json.loads((bundle / "configs/metadata.json").read_text())["network_data_format"]["inputs"]["image"]
    assert image["num_channels"] == 2
    assert image["channel_def"] == {"0": "t1", "1": "t2"}
    settings = load_model(bundle / "models" / "model.pt")["settings"]
    assert settings["channels"] == ["t1", "t2"]
    assert settings["network"]["image_channels"] == 2

    parser = ConfigParser()
    parser.read_config(str(bundle / "configs" / "inference.json"))
    more = {"bundle_root": str(bundle), "dataset_dir": str(discs), "output_dir": str(tmp_path / "out")}
    parser.update(more | {"pattern": ["{subject}_t1.nii.gz", "{subject}_t2.nii.gz"]})
    parser.get_parsed_content("run")
    found = nib.load(tmp_path / "out" / "s0_t1_seg.nii.gz")
    assert found.shape == (SIZE, SIZE, 3)
    truth = np.asarray(nib.load(discs / "s0_gt.nii.gz").dataobj)
    assert (np.asarray(found.dataobj) == truth).mean() > 0.9


def test_files_of_channels(discs, tmp_path):
    items = find_images(discs, ["{subject}_t1.nii.gz", "{subject}_t2.nii.gz"])
    assert len(items) == SUBJECTS
    assert items[3] == {"image": str(discs / "s3_t1.nii.gz"), "further_images": [str(discs / "s3_t2.nii.gz")]}
    with pytest.raises(DataError, match=r"s0_t3.nii.gz: no such file"):
        find_images(discs, ["{subject}_t1.nii.gz", "{subject}_t3.nii.gz"])


def test_pictures_of_a_folder(tmp_path):
    for name in ("a.png", "b.tif"):
        Image.fromarray(np.zeros((4, 6), np.uint8)).save(tmp_path / name)
    assert [item["pixel_size"] for item in find_images(tmp_path, "*.*", pixel_size=0.5)] == [[0.5, 0.5]] * 2
    Image.fromarray(np.zeros((4, 6), np.uint8)).save(tmp_path / "a.tif")
    with pytest.raises(DataError, match="would have one output"):
        find_images(tmp_path, "*.*")
