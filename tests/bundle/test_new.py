"""A bundle of a user's own data says and does what fits that data."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from monai.bundle import ConfigParser, ConfigWorkflow

from dcl_monai.bundle.new import SCHEDULES, new_bundle, prepare_bundle
from dcl_monai.bundle.resources import overlay_folder
from dcl_monai.cli import main
from dcl_monai.datalist import load_datalist
from dcl_monai.utils import DataError


@pytest.fixture(scope="module", params=[2, 3])
def made(request, hospitals, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "hearts"
    return request.param, hospitals(request.param), new_bundle(hospitals(request.param), folder, "small", device="cpu")


def test_everything_is_there_and_true(made):
    dims, _, folder = made
    metadata = json.loads((folder / "configs" / "metadata.json").read_text())
    assert metadata["name"] == folder.name
    pred = metadata["network_data_format"]["outputs"]["pred"]
    assert pred["channel_def"] == {"0": "background", "1": "A", "2": "B"}
    assert pred["num_channels"] == 3
    assert len(pred["spatial_shape"]) == dims
    assert metadata["label_classes"] == "east: both; north: A; south: B"
    readme = (folder / "docs" / "README.md").read_text()
    assert "| data set | training | validation | test | structures |" in readme
    assert "| north | 3 | 1 | 1 | A (3 / 1 / 1) |" in readme
    assert "| east | 3 | 1 | 1 | both (3 / 1 / 1) |" in readme
    assert "Apache License" in (folder / "LICENSE").read_text()
    assert "Data set south" in (folder / "docs" / "data_license.txt").read_text()


def test_training_is_readable_and_simulates_nothing(made):
    text = (made[2] / "configs" / "train.json").read_text()
    assert "simulate" not in text
    assert "synthetic" not in text
    assert text.count("\n") <= 300
    assert len(re.findall(r'"\$', text)) <= 60
    schedule = SCHEDULES["small"]
    config = json.loads(text)
    assert (config["stage1_epochs"], config["iterations_per_epoch"]) == (schedule.stage1_epochs, schedule.iterations)


def test_a_copy_finds_the_data_and_itself_from_anywhere(made, tmp_path, monkeypatch):
    """And not a bundle that the working directory happens to be in."""
    copy, elsewhere = tmp_path / "copy", tmp_path / "elsewhere"
    shutil.copytree(made[2], copy)
    shutil.copytree(made[2], elsewhere)
    monkeypatch.chdir(elsewhere)
    # workflows of earlier tests in this process have left their bundles on Python's path
    monkeypatch.setattr("sys.path", [p for p in sys.path if not (Path(p) / "configs" / "metadata.json").is_file()])
    monkeypatch.setattr("sys.argv", ["monai.bundle", "ckpt_export", "--config_file", f"{copy}/configs/train.json"])
    parser = ConfigParser()
    parser.read_config(str(copy / "configs" / "train.json"))
    assert parser.get_parsed_content("bundle_root") == str(copy)
    assert load_datalist(parser.get_parsed_content("datalist")) == load_datalist(made[1])
    runs = [parser.get_parsed_content("output_dir") for _ in range(2)]
    assert runs[0] == runs[1]
    again = ConfigParser()
    again.read_config(str(copy / "configs" / "train.json"))
    assert again.get_parsed_content("output_dir") != runs[0]  # even within the same second


def test_a_fold_has_data_and_a_model_of_its_own(made):
    parser = ConfigParser()
    parser.read_config([str(made[2] / "configs" / "train.json"), str(overlay_folder() / "fold.json")])
    parser.update({"bundle_root": str(made[2]), "fold": 1, "folds": 3})
    assert parser.get_parsed_content("model_file") == f"{made[2]}/models/fold_1.pt"
    whole, fold = load_datalist(made[1]), parser.get_parsed_content("datalist")
    assert fold["test"] == whole["test"]
    assert len(fold["training"]) + len(fold["validation"]) == len(whole["training"]) + len(whole["validation"])


def test_tracking(made, tmp_path):
    """MONAI's own switch takes a bundle whose runs have a folder each, and makes none."""
    config = made[2] / "configs" / "train.json"
    workflow = ConfigWorkflow(str(config), logging_file=False, tracking="mlflow", bundle_root=str(tmp_path))
    assert not (tmp_path / "runs").exists()
    for engine in ("train", "validate"):
        assert workflow.parser[f"{engine}#handlers"][-1]["_target_"] == "MLFlowHandler"
    store = workflow.parser.get_parsed_content("tracking_uri")
    (run,) = (tmp_path / "runs").iterdir()
    assert store == f"sqlite:///{run}/mlruns.db"


def test_nothing_is_replaced_unasked(made, capsys):
    _, source, folder = made
    model = folder / "models" / "model.pt"
    model.write_bytes(b"trained")
    try:
        with pytest.raises(DataError, match="exists and is not empty"):
            new_bundle(source, folder)
        assert main(["new", str(source), str(folder), "--device", "cpu", "--workers", "1", "--force"]) == 0
        assert model.read_bytes() == b"trained"
    finally:
        model.unlink()
    printed = capsys.readouterr().out
    assert "6000 in all; about " in printed
    assert printed.rstrip().endswith(f"dcl-monai train {folder}")


def test_full_has_the_planned_grid_and_nnunets_features(hospitals, tmp_path):
    small, full = (prepare_bundle(hospitals(3), tmp_path / "x", size, device="cuda") for size in ("small", "full"))
    assert full.plan.network["filters"][0] == 32
    assert small.plan.network["filters"][0] == 16
    assert full.plan.memory > small.plan.memory
    assert full.settings.stage2_epochs * full.settings.iterations_per_epoch == SCHEDULES["full"].steps[1]
    on_this_machine = dataclasses.replace(full, plan=dataclasses.replace(full.plan, device="cpu"))
    assert re.fullmatch(r"about [\d,]+ hours here", on_this_machine.time_said())  # by a step of either stage


def test_a_name_that_no_server_takes(hospitals, tmp_path):
    with pytest.raises(DataError, match="Use letters"):
        prepare_bundle(hospitals(2), tmp_path / "my hearts")
