"""A plan as its user runs it: from data to a trained network, and on to inference, which needs no plan."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import yaml
from helpers import open_workflow, run_bundle

from dcl_monai.cli import main
from dcl_monai.networks import load_model
from dcl_monai.utils.errors import find_user_error

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SUBJECTS = 6


@pytest.fixture(scope="module")
def planned(tmp_path_factory) -> Path:
    """Six CTs of thick slices, of which each shows one of two structures, and a plan for volumes."""
    folder = tmp_path_factory.mktemp("ct")
    rng = np.random.default_rng(0)
    for k in range(SUBJECTS):
        label = np.zeros((16, 16, 5), np.uint8)
        label[3:7, 4:12], label[9:14, 4:12] = 1, 2
        image = np.where(label > 0, 100.0 * label, -1000.0) + rng.normal(0, 10, label.shape)
        affine = np.diag([1.0, 1.0, 4.0, 1.0])
        nib.save(nib.Nifti1Image(image.astype(np.float32), affine), folder / f"s{k}.nii.gz")
        nib.save(nib.Nifti1Image(label, affine), folder / f"s{k}_label.nii.gz")
    classes = ["background", "liver", "spleen"]
    entry = {"images": "{subject}.nii.gz", "labels": "{subject}_label.nii.gz", "values": dict(enumerate(classes))}
    content = {"classes": classes, "split": [4, 1, 1], "datasets": {"ct": entry}}
    (folder / "my.yaml").write_text(yaml.safe_dump(content))
    assert main(["plan", str(folder / "my.yaml"), "--memory", "2", "--device", "cpu", "--dims", "3"]) == 0
    return folder


def short(planned: Path, out: Path) -> dict[str, Any]:
    """A short training of the planned data on a small network."""
    paths = {"datalist": str(planned / "my.yaml"), "output_dir": str(out), "model_file": str(out / "model.pt")}
    small = {"bank_size": 2, "device": "$torch.device('cpu')", "network_def#compnet#filters": [4, 4, 4]}
    return paths | small | {"stage1_epochs": 1, "stage2_epochs": 1}


@pytest.fixture(scope="module")
def trained(planned) -> Path:
    files = str(["bundles/mmwhs/train.json", str(planned / "my_plan.json")])
    run_bundle("run", "training", config_file=files, **short(planned, planned / "out"))
    return planned / "out"


def test_plan_of_the_data(planned):
    plan = json.loads((planned / "my_plan.json").read_text(encoding="utf-8"))
    assert plan["network_def"]["compnet"]["strides"] == [[1, 1, 1], [2, 2, 1], [2, 2, 1]]
    assert plan["network_def"]["compnet"]["kernel_size"][0] == [3, 3, 1]
    assert plan["network_def"]["compnet"]["divisor"] == [4, 4, 1]
    (low, high), mean = plan["intensity"]["clip"], plan["intensity"]["mean"]
    assert 60 < low < 100 < mean < 200 < high < 240


def test_training(planned, trained):
    with (trained / "test_dice.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert {"liver", "spleen"} < set(row)
    assert len((trained / "history.csv").read_text(encoding="utf-8").splitlines()) == 3
    settings = load_model(trained / "model.pt")["settings"]
    plan = json.loads((planned / "my_plan.json").read_text(encoding="utf-8"))
    assert settings["spatial_size"] == plan["spatial_size"]
    assert settings["intensity"] == plan["intensity"]
    assert settings["network"]["divisor"] == [4, 4, 1]


def test_inference_needs_no_plan(planned, trained, tmp_path, monkeypatch):
    """The model file knows its network, and how grey values are scaled."""
    monkeypatch.chdir(ROOT)
    paths = {"model_file": str(trained / "model.pt"), "dataset_dir": str(planned), "output_dir": str(tmp_path)}
    more = {"pattern": "s?.nii.gz", "device": "$torch.device('cpu')", "contact_sheet": False}
    workflow = open_workflow("infer", "bundles/mmwhs/configs/inference.json", **paths, **more)
    intensity = json.loads((planned / "my_plan.json").read_text(encoding="utf-8"))["intensity"]
    image = workflow.parser.get_parsed_content("dataset")[0]["image"]
    for limit, found in zip(intensity["clip"], (image.min(), image.max()), strict=True):
        assert float(found) == pytest.approx((limit - intensity["mean"]) / intensity["std"], abs=1e-4)
    workflow.run()
    masks = sorted(tmp_path.glob("*_seg.nii.gz"))
    assert len(masks) == SUBJECTS
    assert nib.load(masks[0]).shape == (16, 16, 5)


@pytest.mark.parametrize("bundle", ["acdc", "mscmr"])
def test_plan_of_volumes_is_refused_by_a_bundle_of_slices(planned, bundle, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    files = [f"bundles/{bundle}/train.json", planned / "my_plan.json"]
    with pytest.raises(RuntimeError) as caught:
        open_workflow("train", *files, **short(planned, tmp_path))
    assert "merge it over bundles/mmwhs/train.json" in str(find_user_error(caught.value))


def test_plan_of_slices_trains(planned, tmp_path, monkeypatch):
    """The same data as slices, over bundles/acdc: DynUNet with deep supervision in place of its BasicUNet."""
    plan = tmp_path / "slices.json"
    words = ["--memory", "2", "--device", "cpu", "--dims", "2", "--out", str(plan)]
    assert main(["plan", str(planned / "my.yaml"), *words]) == 0
    monkeypatch.chdir(ROOT)
    more = short(planned, tmp_path / "out")
    open_workflow("train", "bundles/acdc/train.json", plan, run_id="training", **more).run()
    assert (tmp_path / "out/test_dice.csv").exists()
    settings = load_model(tmp_path / "out/model.pt")["settings"]
    assert settings["network"]["backbone"] == "DynUNet"
    assert settings["spatial_size"] == [16, 16, -1]
