"""The ACDC bundle as its user runs it: MONAI's own commands, in a process of their own."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from helpers import Forked, assert_same, command_line, refused_bundle, run_bundle
from matplotlib.image import imread
from monai.bundle import ConfigParser
from skimage import measure

from dcl_monai.datalist import acdc_document
from dcl_monai.networks import load_model, save_model
from dcl_monai.utils.errors import find_user_error

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BUNDLE = ROOT / "bundles" / "acdc"
TRAIN = ("run", "training", "--config_file", "bundles/acdc/train.json")


@pytest.fixture(scope="module")
def settings(small_settings, synthetic_acdc) -> dict[str, object]:
    epochs = {"stage1_epochs": 2, "stage2_epochs": 2, "iterations_per_epoch": 16}
    return small_settings | {"dataset_dir": str(synthetic_acdc)} | epochs


@pytest.fixture(scope="module")
def trained(settings, tmp_path_factory) -> tuple[Path, str]:
    """A small training by the README's command, from the root of the repository, in a process of its own."""
    output = tmp_path_factory.mktemp("trained")
    words = command_line(*TRAIN, output_dir=str(output), model_file=str(output / "model.pt"), **settings)
    line, environment = [sys.executable, "-W", "ignore", *words], os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return output, done.stdout


class TestTraining:
    def test_writes_all_that_the_readme_promises(self, trained):
        output, log = trained
        for name in ("curves.png", "overlays.png"):
            assert imread(output / name).std() > 0.01
        with (output / "test_dice.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 4
        assert set(rows[0]) == {"dataset", "subject", "phase", "case", "RV", "MYO", "LV", "whole heart"}
        assert list((output / "tensorboard").iterdir())
        assert (output / "history.csv").read_text(encoding="utf-8").count("\n") == 5
        datalist = json.loads((output / "datalist.json").read_text(encoding="utf-8"))
        assert all(len(item["annotated"]) == 1 for item in datalist["training"])
        assert f"datalist {datalist['hash'][:12]}" in log

    def test_log(self, trained):
        _, log = trained
        lines = [line for line in log.splitlines() if "epoch " in line and " stage " in line]
        assert len(lines) == 4
        assert "stage 1" in lines[0]
        assert "stage 2" in lines[-1]
        for word in ("positive", "negative", "prior", "dual", "RV", "MYO", "LV", "shuffled_dice", "gradient_ratio"):
            assert word in lines[-1]
        assert "DualNet" in log or "both networks start from stage 1's best" in log
        last = log.strip().splitlines()[-1]
        assert "model.pt" in last
        assert "structures of which only the largest part is kept, by Dice of validation patients: " in log
        assert "next: python -m monai.bundle run" in last

    def test_model_carries_weights_and_bank(self, trained):
        output, _ = trained
        state = torch.load(output / "model.pt", weights_only=True)
        assert state["bank.images"].shape == (4, 3, 1, 40, 40)
        assert state["bank.valid"].all()
        assert "single_parts" in load_model(output / "model.pt")["settings"]
        assert all(value.isfinite().all() for value in state.values() if value.is_floating_point())

    @pytest.mark.parametrize("after", [1, 3], ids=["stage 1", "stage 2"])
    def test_killed_and_resumed_ends_as_if_it_had_never_stopped(self, trained, settings, tmp_path, after):
        paths = {"output_dir": str(tmp_path), "model_file": str(tmp_path / "model.pt")}
        process = Forked(*command_line(*TRAIN, **paths, **settings))
        history, checkpoint = tmp_path / "history.csv", tmp_path / "checkpoint.pt"
        process.until(lambda: completed_epochs(history) >= after and checkpoint.exists())
        process.kill()
        process.wait()
        assert "resumed from" in run_bundle(*TRAIN, resume="true", **paths, **settings)
        assert_same_run(tmp_path, trained[0])


def completed_epochs(history: Path) -> int:
    return history.read_text(encoding="utf-8").count("\n") - 1 if history.exists() else 0


def assert_same_run(output: Path, expected: Path) -> None:
    """Bit for bit: the served model, everything in the checkpoint, the history and the test results."""
    for name in ("model.pt", "checkpoint.pt"):
        assert_same(torch.load(output / name, weights_only=True), torch.load(expected / name, weights_only=True), name)
    for name in ("history.csv", "test_dice.csv"):
        assert (output / name).read_text(encoding="utf-8") == (expected / name).read_text(encoding="utf-8")


class TestBundle:
    def test_complete_when_copied_elsewhere(self, settings, tmp_path):
        """`configs/train.json` from the folder of a copy, which keeps everything it writes to itself."""
        copy = tmp_path / "elsewhere"
        shutil.copytree(BUNDLE, copy, ignore=shutil.ignore_patterns("data", "output", "*.pt"))
        epochs = {"stage1_epochs": 1, "stage2_epochs": 0}
        run_bundle("run", "training", "--config_file", "configs/train.json", cwd=copy, **settings | epochs)
        assert (copy / "models" / "model.pt").exists()
        assert (copy / "output" / "curves.png").exists()

    def segmented(self, images: Path, model: Path, output: Path) -> list[Path]:
        """The files that folder inference writes."""
        paths = {"dataset_dir": str(images), "output_dir": str(output), "model_file": str(model)}
        run_bundle("run", config_file="bundles/acdc/configs/inference.json", contact_sheet="false", **paths)
        return sorted(output.glob("*.nii.gz"))

    def test_inference_keeps_the_largest_part_of_the_structures_that_the_model_names(
        self, trained, synthetic_acdc, tmp_path
    ):
        output, _ = trained
        parts = {}
        for names in ([], ["RV", "LV"]):
            content = load_model(output / "model.pt")
            settings = content["settings"] | {"single_parts": names}
            folder = tmp_path / "-".join(["of", *names])
            folder.mkdir()
            save_model(content["model"], settings, folder / "model.pt")
            segmentations = self.segmented(synthetic_acdc / "patient001", folder / "model.pt", folder)
            masks = [np.asarray(nib.load(path).dataobj) for path in segmentations]
            parts[len(names)] = [
                [measure.label(mask == label, return_num=True)[1] for label in (1, 2, 3)] for mask in masks
            ]
        assert all(rv <= 1 and lv <= 1 for rv, _, lv in parts[2])
        assert [myo for _, myo, _ in parts[2]] == [myo for _, myo, _ in parts[0]]
        assert max(max(rv, lv) for rv, _, lv in parts[0]) > 1, "a network trained for seconds leaves stray parts"


class TestBadInput:
    """One clear line with file and remedy before training starts, exit code 1, no traceback."""

    @pytest.fixture
    def data(self, squares, tmp_path):
        """A copy of the data to spoil."""
        return Path(shutil.copytree(squares, tmp_path / "data"))

    def spoil(self, data: Path, name: str, change: Callable[[np.ndarray], np.ndarray], shift: float = 0.0) -> Path:
        path = data / name[:10] / name
        image = nib.load(path)
        affine = image.affine.copy()
        affine[0, 3] += shift
        array = change(np.array(image.dataobj)).astype(image.get_data_dtype())
        nib.save(nib.Nifti1Image(array, affine), path)
        return path

    def test_as_the_user_sees_it(self, settings, data, tmp_path):
        path = self.spoil(data, "patient003_frame01_gt.nii.gz", lambda array: array + 9 * (array == 3))
        paths = {"dataset_dir": str(data), "output_dir": str(tmp_path), "model_file": str(tmp_path / "model.pt")}
        error = refused_bundle(*TRAIN, **settings | paths)
        for word in (str(path), "[12]", "known values are [0, 1, 2, 3]", "Correct the file"):
            assert word in error
        assert not (tmp_path / "history.csv").exists()

    def message(self, parser: ConfigParser) -> str:
        with pytest.raises(RuntimeError) as raised:
            parser.get_parsed_content("train#trainer")
        error = find_user_error(raised.value)
        assert error is not None, "a mistake of the user must end in a DataError"
        assert "\n" not in str(error)
        return str(error)

    def test_missing_folder(self, parse):
        message = self.message(parse(dataset_dir="/nowhere/acdc"))
        assert message.startswith("/nowhere/acdc: no such folder. Set --dataset_dir")

    def test_empty_folder(self, parse, tmp_path):
        assert "no patientNNN folder" in self.message(parse(dataset_dir=str(tmp_path)))

    def test_shapes_differ(self, parse, data):
        path = self.spoil(data, "patient002_frame01_gt.nii.gz", lambda array: array[:-1])
        message = self.message(parse(dataset_dir=str(data)))
        assert message.startswith(f"{path}: its shape ")
        assert str(path).replace("_gt", "") in message
        assert "Resample" in message

    def test_affines_differ(self, parse, data):
        path = self.spoil(data, "patient002_frame01_gt.nii.gz", lambda array: array, shift=5.0)
        message = self.message(parse(dataset_dir=str(data)))
        assert message.startswith(f"{path}: its affine differs")
        assert str(path).replace("_gt", "") in message

    def test_unreadable_file(self, parse, data):
        path = data / "patient002" / "patient002_frame01.nii.gz"
        path.write_bytes(path.read_bytes()[:2000])
        message = self.message(parse(dataset_dir=str(data)))
        assert message.startswith(f"{path}: is damaged, or shorter than its header says")

    def test_class_annotated_nowhere(self, parse, squares, tmp_path):
        document = acdc_document(squares)
        document["classes"].append("LA")
        (tmp_path / "own.json").write_text(json.dumps(document))
        message = self.message(parse(datalist=str(tmp_path / "own.json")))
        assert "'LA' is annotated in no training image, and no label distinguishes it from 'background'" in message

    def test_class_annotated_in_one_subject_only(self, parse):
        message = self.message(parse(split=[4, 4, 4]))
        assert "annotated in 1 training subject(s), but conditions need two" in message
