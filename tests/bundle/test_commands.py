"""The verbs: one command of MONAI each, printed; a misspelt option is an error."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dcl_monai
from dcl_monai.bundle import commands
from dcl_monai.bundle.command_line import options
from dcl_monai.bundle.commands import command_of
from dcl_monai.bundle.resources import overlay_folder
from dcl_monai.cli import main
from dcl_monai.utils import DataError, provenance

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bundle(tmp_path) -> Path:
    shutil.copytree(ROOT / "bundles" / "acdc" / "configs", tmp_path / "b" / "configs")
    (tmp_path / "b" / "models").mkdir()
    (tmp_path / "b" / "models" / "model.pt").touch()
    return tmp_path / "b"


@pytest.fixture
def ran(monkeypatch) -> list[list[str]]:
    """Commands that were run, without running them."""
    found: list[list[str]] = []
    monkeypatch.setattr(commands.subprocess, "run", lambda words, env: found.append(words) or Done())
    return found


class Done:
    returncode = 0


def test_commands(bundle):
    start = [sys.executable, "-m", "monai.bundle"]
    train, evaluate, inference = (
        str(bundle / "configs" / f"{name}.json") for name in ("train", "evaluate", "inference")
    )
    assert command_of("train", bundle) == [*start, "run", "training", "--config_file", train]
    assert command_of("evaluate", bundle)[3:] == ["run", "evaluating", "--config_file", f'["{train}", "{evaluate}"]']
    exported = command_of("export", bundle)
    assert exported[3:5] == ["ckpt_export", "network_def"]
    assert exported[exported.index("--filepath") + 1] == str(bundle / "models" / "model.ts")
    assert exported[exported.index("--config_file") + 1] == inference
    assert "--key_in_ckpt" not in exported
    program, onnx = (command_of("export", bundle, form=form) for form in ("pt2", "onnx"))
    assert program[3:5] == ["run", "exporting"]
    assert options(program)["config_file"] == [inference, str(overlay_folder() / "torch_export.json")]
    assert onnx[3:5] == ["onnx_export", "network_def"]
    assert options(onnx)["args_file"] == str(bundle / "configs" / "onnx_export.json")
    assert [options(command)["filepath"][-9:] for command in (program, onnx)] == ["model.pt2", "odel.onnx"]


def test_printed_and_run(bundle, ran, capsys):
    assert main(["predict", str(bundle), "in", "out", "--num_sets", "4"]) == 0
    (command,) = ran
    assert command[-6:] == ["--dataset_dir", "in", "--output_dir", "out", "--num_sets", "4"]
    assert capsys.readouterr().out.startswith("$ python -m monai.bundle run run --config_file ")


def test_overlays_of_the_project_by_name(bundle, ran):
    assert main(["train", str(bundle), "--overlay", "losses/ce.json", "--batch_size=4"]) == 0
    assert str(overlay_folder() / "losses" / "ce.json") in ran[0][-2]
    assert ran[0][-1] == "--batch_size=4"


def test_time_and_fold_are_overlays(bundle, ran):
    assert main(["train", str(bundle), "--minutes", "5", "--fold", "2"]) == 0
    files = json.loads(ran[0][ran[0].index("--config_file") + 1])
    assert files[1:] == [str(overlay_folder() / "fold.json"), str(overlay_folder() / "minutes.json")]
    assert ran[0][-4:] == ["--minutes", "5", "--fold", "2"]


def test_all_folds_predict_together(bundle, ran):
    for fold in range(3):
        (bundle / "models" / f"fold_{fold}.pt").touch()
    assert main(["predict", str(bundle), "in", "out", "--fold", "all"]) == 0
    given = options(ran[0])
    assert given["model_file"] == f"{bundle}/models/fold_0.pt"
    assert given["further_models"] == [f"{bundle}/models/fold_{fold}.pt" for fold in (1, 2)]
    assert given["dataset_dir"] == "in"
    assert main(["predict", str(bundle), "in", "out", "--fold", "2"]) == 0
    assert options(ran[1])["model_file"] == f"{bundle}/models/fold_2.pt"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "{}", "--minutes", "5", "--stage1_epochs", "3"], "--minutes sets it"),
        (["predict", "{}", "in", "out", "--fold", "all"], "--fold all: no such model in"),
        (["predict", "{}", "in", "out", "--fold", "7"], "fold_7.pt: no such model"),
        (["train", "{}", "--fold", "1", "--datalist", "x.yaml"], "--fold divides the bundle's own data"),
        (["predict", "{}", "in", "out", "--num_set", "4"], "no id 'num_set' (did you mean --num_sets?)"),
        (["predict", "{}", "in", "out", "--save_uncertainy", "true"], "(did you mean --save_uncertainty?)"),
        (["train", "{}", "--stage1_epocs", "3"], "(did you mean --stage1_epochs?)"),
        (["train", "{}", "--minuts", "3"], "(did you mean --minutes?)"),
        (["train", "{}", "fast"], "fast: is not an option"),
        (["train", "{}", "--overlay", "losses/cf.json"], "no such file"),
        (["train", "{}", "--overlay"], "give the config file"),
        (["train", "{}/configs"], "is not a bundle"),
        (["export", "{}", "--format", "tflite"], "--format tflite: give one of ts, onnx, pt2"),
        (["export", "{}", "--format"], "--format: give one of ts, onnx, pt2"),
        (["evaluate", "{}", "--model_file", "other.pt"], "other.pt: no such model. Train one first"),
    ],
)
def test_mistakes(bundle, ran, capsys, words, message):
    assert main([word.format(bundle) for word in words]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not ran


def test_export_by_its_format(bundle, ran):
    assert main(["export", str(bundle), "--format", "pt2"]) == 0
    assert ran[0][3:5] == ["run", "exporting"]
    dcl_monai.export(bundle, "onnx")
    assert ran[1][3:5] == ["onnx_export", "network_def"]


def test_in_python(bundle, ran, monkeypatch):
    assert dcl_monai.train(str(bundle), stage1_epochs=3, split=[1, 1, 1]) == bundle
    assert ran[0][-4:] == ["--stage1_epochs", "3", "--split", "[1, 1, 1]"]
    with pytest.raises(DataError, match="is a folder"):
        dcl_monai.predict(bundle, bundle)
    with pytest.raises(AttributeError, match="trane"):
        dcl_monai.trane  # noqa: B018


def test_failure_in_python(bundle, monkeypatch):
    monkeypatch.setattr(commands, "run_command", lambda words: 3)
    with pytest.raises(DataError, match="export failed with exit code 3"):
        dcl_monai.export(bundle)


def test_predict_an_array(bundle, monkeypatch):
    import nibabel as nib

    def segment(words):
        folder, name, out = (words[words.index(f"--{key}") + 1] for key in ("dataset_dir", "pattern", "output_dir"))
        image = nib.load(Path(folder) / name)
        assert image.header.get_zooms() == (2.0, 2.0, 10.0)
        nib.save(nib.Nifti1Image((image.get_fdata() > 0).astype(np.uint8), image.affine), f"{out}/image_seg.nii.gz")
        return 0

    monkeypatch.setattr(commands, "run_command", segment)
    array = np.random.default_rng(0).normal(size=(4, 5, 6))
    found = dcl_monai.predict(bundle, array, spacing=(2, 2, 10))
    assert np.array_equal(found, array > 0)


def test_predict_a_picture_by_the_file_that_describes_the_data(bundle, monkeypatch):
    from PIL import Image

    def segment(words):
        given = options(words)
        assert given["config_file"] == str(bundle / "configs" / "inference.json")
        Image.fromarray(np.eye(3, 4, dtype=np.uint8)).save(Path(given["output_dir"]) / "a_seg.png")
        return 0

    monkeypatch.setattr(commands, "run_command", segment)
    description = bundle.with_suffix(".yaml")
    description.touch()
    assert np.array_equal(dcl_monai.predict(description, bundle / "a.png"), np.eye(3, 4))


def test_the_time_counts_from_the_verb_on(monkeypatch, capfd):
    """A busy machine takes long until the process behind it has imported everything."""
    begun = time.monotonic()
    assert commands.run_command([sys.executable, "-c", "import os; print(os.environ['DCL_STARTED'])"]) == 0
    said = capfd.readouterr().out.splitlines()[-1]
    assert begun <= float(said) <= time.monotonic()
    monkeypatch.setenv("DCL_STARTED", said)
    assert runpy.run_path(provenance.__file__)["STARTED"] == float(said)
