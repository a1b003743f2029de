"""The ACDC bundle as its user runs it: MONAI's own commands, in a process of their own."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from helpers import assert_same
from matplotlib.image import imread
from monai.bundle import ConfigParser, ConfigWorkflow
from skimage import measure

from dcl_monai.datalist import acdc_document
from dcl_monai.networks import load_model, save_model
from dcl_monai.utils.errors import find_user_error

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BUNDLE = ROOT / "bundles" / "acdc"


def command(config: str, cwd: Path, run_id: str | None = "training", **override: object) -> list[str]:
    line = [sys.executable, "-W", "ignore", "-m", "monai.bundle", "run", *([run_id] if run_id else [])]
    line += ["--config_file", config]
    for key, value in override.items():
        line += [f"--{key}", value if isinstance(value, str) else json.dumps(value)]
    return line


def run(*args: object, cwd: Path = ROOT, **kwargs: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command(*args, cwd=cwd, **kwargs), cwd=cwd, capture_output=True, text=True, encoding="utf-8", env=environment
    )


@pytest.fixture(scope="module")
def settings(small_settings, synthetic_acdc) -> dict[str, object]:
    return small_settings | {"dataset_dir": str(synthetic_acdc), "stage1_epochs": 2, "stage2_epochs": 2}


@pytest.fixture(scope="module")
def trained(settings, tmp_path_factory) -> tuple[Path, str]:
    """A small training by the README's command, from the root of the repository."""
    output = tmp_path_factory.mktemp("trained")
    done = run("bundles/acdc/train.json", output_dir=str(output), model_file=str(output / "model.pt"), **settings)
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
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            command("bundles/acdc/train.json", cwd=ROOT, **paths, **settings),
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and not (
            (tmp_path / "checkpoint.pt").exists() and completed_epochs(tmp_path / "history.csv") >= after
        ):
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = run("bundles/acdc/train.json", resume="true", **paths, **settings)
        assert done.returncode == 0, done.stderr[-3000:]
        assert "resumed from" in done.stdout
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
        done = run("configs/train.json", cwd=copy, **(settings | {"stage1_epochs": 1, "stage2_epochs": 0}))
        assert done.returncode == 0, done.stderr[-3000:]
        assert (copy / "models" / "model.pt").exists()
        assert (copy / "output" / "curves.png").exists()

    def test_specification(self):
        for name in (
            "configs/metadata.json",
            "configs/train.json",
            "configs/evaluate.json",
            "configs/inference.json",
            "configs/logging.conf",
            "docs/README.md",
            "docs/data_license.txt",
            "LICENSE",
            "train.json",
        ):
            assert (BUNDLE / name).is_file(), name
        metadata = json.loads((BUNDLE / "configs" / "metadata.json").read_text(encoding="utf-8"))
        required = (
            "schema version monai_version pytorch_version numpy_version required_packages_version "
            "task description authors copyright network_data_format"
        )
        assert set(required.split()) <= set(metadata)
        assert metadata["version"] in metadata["changelog"]

    @pytest.mark.parametrize(
        ("kind", "files"),
        [("train", ["train.json"]), ("infer", ["inference.json"]), ("infer", ["train.json", "evaluate.json"])],
        ids=["train", "inference", "evaluate"],
    )
    def test_properties(self, monkeypatch, kind, files, synthetic_acdc, small_settings, tmp_path):
        monkeypatch.chdir(ROOT)
        workflow = ConfigWorkflow(
            config_file=[str(BUNDLE / "configs" / name) for name in files],
            meta_file=str(BUNDLE / "configs" / "metadata.json"),
            logging_file=False,
            workflow_type=kind,
            dataset_dir=str(synthetic_acdc),
            output_dir=str(tmp_path),
            model_file=str(tmp_path / "model.pt"),
            **{key: value for key, value in small_settings.items() if kind == "train" or "train.json" in files},
        )
        workflow.initialize()
        assert workflow.check_properties() == []

    def test_ckpt_export_equals_the_python_model(self, trained, tmp_path, monkeypatch, small_settings):
        """TorchScript that takes the target alone; the bank travels with it."""
        output, _ = trained
        monkeypatch.chdir(ROOT)
        exported = tmp_path / "model.ts"
        line = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "monai.bundle",
            "ckpt_export",
            "network_def",
            "--filepath",
            str(exported),
            "--ckpt_file",
            str(output / "model.pt"),
            "--meta_file",
            "bundles/acdc/configs/metadata.json",
            "--config_file",
            "bundles/acdc/configs/inference.json",
            "--model_file",  # brings its network's settings along
            str(output / "model.pt"),
        ]
        done = subprocess.run(line, capture_output=True, text=True, encoding="utf-8")
        assert done.returncode == 0, done.stderr[-3000:]
        parser = ConfigParser()
        parser.read_config("bundles/acdc/configs/inference.json")
        parser.update({"model_file": str(output / "model.pt")})
        network = parser.get_parsed_content("network_def").eval()
        network.load_state_dict(torch.load(output / "model.pt", weights_only=True))
        # in a process that never heard of dcl_monai
        inputs = {str(size): torch.randn(2, 1, *size) for size in ((40, 40), (53, 37), (112, 112))}
        torch.save(inputs, tmp_path / "inputs.pt")
        script = (
            "import sys, torch; net = torch.jit.load(sys.argv[1]).eval();"
            "torch.save({k: net(v) for k, v in torch.load(sys.argv[2]).items()}, sys.argv[3]);"
            "assert 'dcl_monai' not in sys.modules and 'monai' not in sys.modules"
        )
        subprocess.run(
            [sys.executable, "-c", script, str(exported), str(tmp_path / "inputs.pt"), str(tmp_path / "outputs.pt")],
            check=True,
            cwd=tmp_path,
        )
        outputs = torch.load(tmp_path / "outputs.pt")
        with torch.no_grad():
            for key, image in inputs.items():
                torch.testing.assert_close(outputs[key], network(image), atol=1e-5, rtol=0)

    def test_evaluate_gives_the_table_of_the_training(self, trained, settings, tmp_path):
        output, _ = trained
        done = run(
            "['bundles/acdc/configs/train.json','bundles/acdc/configs/evaluate.json']",
            run_id="evaluating",
            output_dir=str(tmp_path),
            model_file=str(output / "model.pt"),
            **settings,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert (tmp_path / "test_dice.csv").read_text(encoding="utf-8") == (output / "test_dice.csv").read_text(
            encoding="utf-8"
        )

    def segmented(self, images: Path, model: Path, output: Path) -> list[Path]:
        """The files that folder inference writes."""
        paths = {"dataset_dir": str(images), "output_dir": str(output), "model_file": str(model)}
        done = run("bundles/acdc/configs/inference.json", run_id=None, **paths)
        assert done.returncode == 0, done.stderr[-3000:]
        return sorted(output.glob("*.nii.gz"))

    def test_inference_keeps_the_geometry(self, trained, synthetic_acdc, tmp_path):
        """The model brings its settings along: grid, classes and network are not those of the bundle."""
        output, _ = trained
        segmentations = self.segmented(synthetic_acdc / "patient001", output / "model.pt", tmp_path)
        assert len(segmentations) == 2
        image = nib.load(synthetic_acdc / "patient001" / "patient001_frame01.nii.gz")
        mask = nib.load(segmentations[0])
        assert mask.shape == image.shape
        np.testing.assert_allclose(mask.affine, image.affine, atol=1e-4)
        assert mask.get_data_dtype() == np.uint8
        assert set(np.unique(mask.dataobj)) <= {0, 1, 2, 3}

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
    def data(self, synthetic_acdc, tmp_path):
        """A copy of the data to spoil."""
        return Path(shutil.copytree(synthetic_acdc, tmp_path / "data"))

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
        done = run("bundles/acdc/train.json", **(settings | paths))
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1
        for word in (str(path), "[12]", "known values are [0, 1, 2, 3]", "Correct the file"):
            assert word in errors[0]
        assert "epoch 1/" not in done.stdout

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

    def test_class_annotated_nowhere(self, parse, synthetic_acdc, tmp_path):
        document = acdc_document(synthetic_acdc)
        document["classes"].append("LA")
        (tmp_path / "own.json").write_text(json.dumps(document))
        message = self.message(parse(datalist=str(tmp_path / "own.json")))
        assert "'LA' is annotated in no training image, and no label distinguishes it from 'background'" in message

    def test_class_annotated_in_one_subject_only(self, parse):
        message = self.message(parse(split=[4, 4, 4]))
        assert "annotated in 1 training subject(s), but conditions need two" in message
