"""A real study on a tiny synthetic set: the command, its folders, its report."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from helpers import Forked

from dcl_monai.cli import main
from dcl_monai.datalist import acdc_document, load_datalist, simulate_datalist, write_datalist
from dcl_monai.studies.runs import make_run
from dcl_monai.studies.settings import open_study, read_study, save_study
from dcl_monai.studies.tables import recipes_of
from dcl_monai.synthetic import write_synthetic_acdc
from dcl_monai.utils.locks import take_lock

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SMALL = {"split": [8, 1, 3], "pixdim": [6.0, 6.0, -1], "spatial_size": [32, 32, -1], "batch_size": 4, "bank_size": 2}
SMALL |= {"device": "$torch.device('cpu')", "network_def#compnet#features": [4, 4, 8, 8, 8, 4]}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_synthetic_acdc(tmp_path_factory.mktemp("acdc"), num_subjects=12, progress=False)


@pytest.fixture(scope="module")
def study(data, tmp_path_factory) -> tuple[Path, str]:
    """DCL, and pseudo-labelling with its three steps, side by side."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "small.json").write_text(json.dumps(SMALL))
    words = ["study", "baselines", "--out", str(folder / "out"), "--dataset_dir", str(data), "--seeds", "0"]
    words += ["--only", "paper_6", "pseudo", "--epochs", "1", "1", "--iterations", "2", "--jobs", "2", "--fold", "1"]
    done = Forked("-m", "dcl_monai", *words, "--overlay", folder / "small.json", OMP_NUM_THREADS="1").wait()
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out", done.stdout


def test_runs(study):
    out, shown = study
    assert "paper_6 seed 0: complete" in shown
    assert "python -m dcl_monai report" in shown
    tables = {name: (out / "runs" / name / "seed0" / "test_dice.csv").read_text() for name in ("paper_6", "pseudo")}
    volumes = {name: [line.split(",")[:4] for line in text.splitlines()] for name, text in tables.items()}
    assert volumes["paper_6"] == volumes["pseudo"], "one test set for all rows"
    assert len(volumes["paper_6"]) == 1 + 3 * 2
    others = simulate_datalist(acdc_document(read_study(out).dataset_dir), SMALL["split"])["test"]
    assert not {line[1] for line in volumes["paper_6"]} & {item["subject"] for item in others}, (
        "patients of another fold"
    )
    for name in ("test_surface.csv", "test_confusion.csv", "test_dice_shuffled.csv", "predictions", "model.pt"):
        assert (out / "runs" / "paper_6" / "seed0" / name).exists()
    record = json.loads((out / "runs" / "pseudo" / "seed0" / "run.json").read_text())
    assert list(record["commands"]) == ["teacher", "relabelling", "training"]
    assert record["status"] == "complete"


def test_one_budget(study):
    """Both trained as many epochs of as many iterations, pseudo-labelling in two trainings."""
    out, _ = study
    epochs = {}
    for name in ("paper_6", "pseudo"):
        run = make_run(out, read_study(out), name, 0)
        epochs[name] = run.epochs_done()
        for step in run.steps:
            assert step.settings["seed"] == 0
            assert step.settings["iterations_per_epoch"] == 2
    assert epochs == {"paper_6": 2, "pseudo": 2}


def test_pseudo_labels_keep_what_is_known(study):
    """Full-looking labels that agree with the one class that an annotator drew, voxel by voxel."""
    folder = study[0] / "runs" / "pseudo" / "seed0"
    before, after = (load_datalist(folder / name / "datalist.json")["training"] for name in ("teacher", "pseudo"))
    assert len(before) == len(after) == 16
    for told, filled in zip(before, after, strict=True):
        (known,) = told["annotated"]
        assert sorted(filled["annotated"]) == [0, 1, 2, 3]
        truth, pseudo = (np.asarray(nib.load(item["label"]).dataobj) for item in (told, filled))
        assert truth.shape == pseudo.shape
        assert np.array_equal(truth == known, pseudo == known)


def test_report(study, capsys):
    out, _ = study
    assert main(["report", str(out)]) == 0
    text = (out / "report.html").read_text(encoding="utf-8")
    assert "pseudo-labelling" in text
    assert "Best, median and worst cases" in text
    with (out / "report" / "baselines.csv").open(encoding="utf-8") as file:
        labels = {line["recipe"]: line["labels"] for line in csv.DictReader(file)}
    assert labels == {"paper_6": "8", "pseudo": "8"}, "predictions are no labels"


def test_settings_are_fixed_by_the_first_call(study, capsys):
    out, _ = study
    assert main(["study", "baselines", "--out", str(out), "--epochs", "5", "5", "--list"]) == 1
    assert "this study has epochs (1, 1), not (5, 5)" in capsys.readouterr().err
    assert main(["study", "baselines", "--out", str(out), "--only", "pseudo", "--seeds", "0"]) == 0, "nothing to do"


def test_recipes_are_fixed_by_the_first_call(study, capsys):
    """The config files of the project may change between two calls."""
    out, _ = study
    record = out / "runs" / "paper_6" / "seed0" / "run.json"
    content = json.loads(record.read_text())
    names = ["bundles/acdc/configs/train.json", "small.json", "configs/paper/ablation_6.json"]
    assert list(content["configs"]) == names
    try:
        record.write_text(json.dumps(content | {"configs": content["configs"] | {names[2]: "0" * 64}}))
        assert main(["study", "baselines", "--out", str(out), "--only", "paper_6", "--seeds", "0"]) == 1
        assert "was started with another configs/paper/ablation_6.json, so" in capsys.readouterr().err
    finally:
        record.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "nothing"], "--only nothing: no such row"),
        (["--seeds", "-1"], "--seeds -1"),
        (["--fold", "-1"], "--fold -1"),
        (["--jobs", "0"], "--jobs 0"),
        (["--threads", "0"], "--threads 0"),
        (["--epochs", "0", "1"], "--epochs 0 1"),
        (["--iterations", "0"], "--iterations 0"),
        (["--bundle", "liver"], "liver: no bundle"),
        (["--overlay", "nothing.json"], "--overlay nothing.json: no such file"),
        (["--dataset_dir", "nowhere"], "--dataset_dir nowhere: no such folder"),
        (["--datalist", "nowhere.yaml"], "--datalist nowhere.yaml: no such file"),
        (["--set", "batch_size"], "--set batch_size: write ID=VALUE"),
        (["--set", "spatail_size=[32,32,-1]"], "--set spatail_size: the bundle acdc has no id"),
        (["--set", "dual_weight=0.3"], "--set dual_weight: the row no_dual sets dual_weight itself"),
        (["--set", "loss#combination=ce"], "sets loss itself"),
        (["--set", "seed=3"], "--set seed: each run sets this itself"),
        (["--split", "-1", "2", "3"], "the split [-1.0, 2.0, 3.0] is invalid"),
        (["--split", "100", "0", "0"], "no subject is left for validation"),
        (["--fold", "9"], "fold 9: a fold holds out 2 of 12 subjects. Choose a fold from 0 to 5"),
    ],
)
def test_mistakes_are_one_line(tmp_path, data, capsys, words, message):
    given = [] if "--datalist" in words else ["--dataset_dir", str(data)]  # else: the synthetic data of the bundle
    assert main(["study", "ablation", "--out", str(tmp_path / "out"), "--list", *given, *words]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not (tmp_path / "out").exists(), "a mistake must not be what the next call has to keep to"


ROWS = ["conventional_ce", "unet_p", "compatible_ce"]


def test_list_runs_and_writes_nothing(tmp_path, data, capsys):
    """Runs are shown as they are, also those of another process or of one that was killed."""
    settings = open_study(tmp_path / "out", {"dataset_dir": str(data)})
    words = ["study", "ablation", "--out", str(tmp_path / "out"), "--dataset_dir", str(data), "--seeds", "0", "--list"]
    assert main([*words, "--only", *ROWS]) == 0
    assert not (tmp_path / "out").exists()
    shown = capsys.readouterr().out
    assert "subjects: 7 training, 3 validation, 2 test (split seed 0, fold 0)" in shown
    assert shown.count("waiting") == 3
    killed, worked_on, _ = (make_run(tmp_path / "out", settings, row, 0) for row in recipes_of("ablation", ROWS))
    killed.note("running")
    lock = take_lock(worked_on.folder)
    assert main([*words, "--only", *ROWS]) == 0
    shown = capsys.readouterr().out
    os.close(lock)
    assert [shown.count(status) for status in ("stopped", "running", "waiting")] == [1, 1, 1]


def test_partial_labels_are_refused_before_anything_runs(tmp_path, data, capsys):
    """A study hides classes itself."""
    write_datalist(simulate_datalist(acdc_document(data), [60, 20, 20]), tmp_path / "partial.json")
    words = ["study", "baselines", "--out", str(tmp_path / "out"), "--datalist", str(tmp_path / "partial.json")]
    assert main(words) == 1
    assert "label" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_data_may_lie_elsewhere(tmp_path, data):
    """On another machine; but what decides the results must be the same."""
    first = open_study(
        tmp_path, {"dataset_dir": str(data), "settings": {"batch_size": 4}, "overlays": ("region.json",)}
    )
    save_study(tmp_path, first)
    moved = tmp_path / "moved"
    moved.mkdir()
    second = open_study(tmp_path, {"dataset_dir": str(moved)})
    assert second.dataset_dir == str(moved)
    assert second.settings == first.settings == {"batch_size": 4}
    assert read_study(tmp_path).dataset_dir == str(data.resolve())
    assert first.overlays == ("region.json",)
    assert first.overlay_files[0].is_file()
